"""`assay doctor`: devices, drivers, libraries and folders, and how to get what is missing."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.cli import options
from assay.cli.output import (
    BAD,
    FAINT,
    GOOD,
    NAME,
    WARN,
    Canvas,
    Line,
    Part,
    Report,
    facts,
    report_of,
    table,
    working,
    wrapped,
)

if TYPE_CHECKING:
    from assay.planner.machine_check import MachineCheck
    from assay.runtime.survey import Survey


def doctor_command(as_json: options.Json = False) -> Report:
    """Check devices, drivers, libraries and folders.

    Lists what is missing and how to install it. The exit code is 1 if something required is
    missing.
    """
    from assay.planner.machine_check import check_machine

    with working("inspecting this machine"):
        check = check_machine()
    return report_of(check, lambda canvas: _text(check, canvas), as_json)


def _text(check: "MachineCheck", canvas: Canvas) -> Iterator[Line]:
    found = check.survey
    program, processor = found.program, found.processor
    yield from facts(
        [
            ("assay", f"{program['version']}, {program['build']}"),
            ("python", f"{program['python']}, {program['interpreter']}"),
            (
                "processor",
                f"{processor['name']}, {processor['usable_cores']} of {processor['cores']} cores",
            ),
            ("features", " ".join(processor["features"])),
            ("kernels", processor["kernels"]),
        ],
        canvas,
    )
    yield ""
    yield from table(
        ("device", "works", "memory", "description"), _devices(found), canvas, right=(2,)
    )
    yield ""
    yield from table(
        ("driver", "version", "devices", "detail"), _drivers(found), canvas, right=(2,)
    )
    yield ""
    yield from table(("library", "found", "required", "for"), _libraries(found), canvas)
    yield ""
    yield from table(("folder", "state", "free", "path"), _folders(found), canvas, right=(2,))
    yield ""
    if check.ceilings:
        yield from table(
            ("ceilings", "read", "copy", "linear", "launch", "measured"),
            _figures(check),
            canvas,
            right=(1, 2, 3, 4),
        )
    else:
        yield (("ceilings", FAINT), "  not measured yet: assay calibrate")
    if found.missing:
        yield ""
        yield "missing:"
    for one in found.missing:
        style = BAD if one.required else WARN
        yield ("    ", (one.what, style), f", for {one.needed_for}")
        yield from wrapped(one.how, canvas, "        ", FAINT)


def _size(number: int | None) -> str:
    return "" if number is None else f"{number / 2**30:,.1f} GiB"


def _devices(found: "Survey") -> list[tuple[Part, ...]]:
    return [
        (
            (one.name, NAME),
            ("yes", GOOD) if one.works else ("no", BAD),
            _size(one.memory_bytes),
            one.problem or one.description,
        )
        for one in found.devices
    ]


def _drivers(found: "Survey") -> list[tuple[Part, ...]]:
    return [
        ((one.name, NAME), one.version or "none", str(one.devices), one.detail)
        for one in found.drivers
    ]


def _libraries(found: "Survey") -> list[tuple[Part, ...]]:
    return [
        (
            (one.name, NAME),
            one.found or ("no", WARN if one.extra else BAD),
            one.wanted,
            f"extra {one.extra}" if one.extra else "everything",
        )
        for one in found.libraries
    ]


def _folders(found: "Survey") -> list[tuple[Part, ...]]:
    return [
        (
            (one.name, NAME),
            ("writable", GOOD) if one.writable else ("not writable", BAD),
            _size(one.free_bytes),
            f"{one.path} ({one.set_by})",
        )
        for one in found.places
    ]


def _figures(check: "MachineCheck") -> list[tuple[Part, ...]]:
    def shown(number: float | str | None, scale: float, unit: str) -> str:
        return f"{number / scale:,.1f} {unit}" if isinstance(number, float) else "not measured"

    rows: list[tuple[Part, ...]] = []
    for name, ceilings in check.ceilings.items():
        rows.append(
            (
                (name, NAME),
                shown(ceilings["memory_read"], 1e9, "GB/s"),
                shown(ceilings["memory_copy"], 1e9, "GB/s"),
                shown(ceilings["linear"], 1e9, "GFLOP/s"),
                shown(ceilings["launch"], 1e-6, "us"),
                str(ceilings["measured"]),
            )
        )
    return rows
