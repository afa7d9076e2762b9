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
    table,
    working,
    wrapped,
)
from assay.errors import CheckFailedError, InputError

if TYPE_CHECKING:
    from assay.planner.calibrate import Calibration
    from assay.runtime.survey import Survey


def doctor_command(as_json: options.Json = False) -> Report:
    """Check devices, drivers, libraries and folders.

    Lists what is missing and how to install it. The exit code is 1 if something required is
    missing.
    """
    from assay.runtime.survey import survey

    with working("inspecting this machine"):
        found = survey()
        measured, unreadable = _calibrations(found)
    required = [one.what for one in found.missing if one.required]
    problem = CheckFailedError(f"missing: {', '.join(required)}") if required else None
    data = {**found.to_data(), "ceilings": {name: _summary(one) for name, one in measured.items()}}
    return Report(
        data, lambda canvas: _text(found, measured, canvas), as_json, problem, notes=unreadable
    )


def _calibrations(found: "Survey") -> tuple[dict[str, "Calibration"], list[str]]:
    """Stored calibrations of the usable devices, by name, and why others cannot be read."""
    from assay.planner.calibrate import stored

    read: dict[str, Calibration] = {}
    unreadable: list[str] = []
    for name in (one.name for one in found.devices if one.works and one.name != "sim"):
        try:
            kept = stored(name)
        except InputError as error:
            unreadable.append(f"{error.message}: assay calibrate --device {name} replaces it")
            continue
        if kept is not None:
            read[name] = kept
    return read, unreadable


def _summary(measured: "Calibration") -> dict[str, float | str | None]:
    """The headline ceilings of a device in base units; None for what was not measured."""

    def best(operation: str, unit: str) -> float | None:
        """The one of the largest working set on the most threads, or the highest rate."""
        found = [one for one in measured.select(operation) if one.unit == unit]
        if unit == "FLOP/s":
            return max((one.value for one in found), default=None)
        found.sort(key=lambda one: (one.parameters.get("threads", 1), one.parameters.get("bytes")))
        return found[-1].value if found else None

    return {
        "memory_read": best("read", "byte/s"),
        "memory_copy": best("copy", "byte/s"),
        "linear": best("linear", "FLOP/s"),
        "launch": best("launch", "s"),
        "measured": measured.date,
    }


def _text(found: "Survey", measured: dict[str, "Calibration"], canvas: Canvas) -> Iterator[Line]:
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
    if measured:
        yield from table(
            ("ceilings", "read", "copy", "linear", "launch", "measured"),
            _figures(measured),
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


def _figures(measured: dict[str, "Calibration"]) -> list[tuple[Part, ...]]:
    def shown(number: float | str | None, scale: float, unit: str) -> str:
        return f"{number / scale:,.1f} {unit}" if isinstance(number, float) else "not measured"

    rows: list[tuple[Part, ...]] = []
    for name, one in measured.items():
        found = _summary(one)
        rows.append(
            (
                (name, NAME),
                shown(found["memory_read"], 1e9, "GB/s"),
                shown(found["memory_copy"], 1e9, "GB/s"),
                shown(found["linear"], 1e9, "GFLOP/s"),
                shown(found["launch"], 1e-6, "us"),
                one.date,
            )
        )
    return rows
