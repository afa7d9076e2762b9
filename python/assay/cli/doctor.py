"""`assay doctor`: devices, drivers, libraries and folders, and how to get what is missing."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, working, wrapped

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
    survey = check.survey
    program, processor = survey.program, survey.processor
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
        ("device", "works", "memory", "description"), _devices(survey), canvas, right=(2,)
    )
    yield ""
    yield from table(
        ("driver", "version", "devices", "detail"), _drivers(survey), canvas, right=(2,)
    )
    yield ""
    yield from table(("library", "found", "required", "for"), _libraries(survey), canvas)
    yield ""
    yield from table(("folder", "state", "free", "path"), _folders(survey), canvas, right=(2,))
    yield ""
    if check.ceilings:
        yield from table(
            ("ceilings", "read", "copy", "linear", "launch", "measured"),
            _figures(check),
            canvas,
            right=(1, 2, 3, 4),
        )
    else:
        yield (("ceilings", styles.FAINT), "  not measured yet: assay calibrate")
    if survey.missing:
        yield ""
        yield "missing:"
    for requirement in survey.missing:
        style = styles.BAD if requirement.required else styles.WARN
        yield ("    ", (requirement.what, style), f", for {requirement.needed_for}")
        yield from wrapped(requirement.how, canvas, "        ", styles.FAINT)


def _size(number: int | None) -> str:
    return "" if number is None else f"{number / 2**30:,.1f} GiB"


def _devices(survey: "Survey") -> list[tuple[Part, ...]]:
    return [
        (
            (device.name, styles.NAME),
            ("yes", styles.GOOD) if device.works else ("no", styles.BAD),
            _size(device.memory_bytes),
            device.problem or device.description,
        )
        for device in survey.devices
    ]


def _drivers(survey: "Survey") -> list[tuple[Part, ...]]:
    return [
        ((driver.name, styles.NAME), driver.version or "none", str(driver.devices), driver.detail)
        for driver in survey.drivers
    ]


def _libraries(survey: "Survey") -> list[tuple[Part, ...]]:
    return [
        (
            (library.name, styles.NAME),
            library.found or ("no", styles.WARN if library.extra else styles.BAD),
            library.wanted,
            f"extra {library.extra}" if library.extra else "everything",
        )
        for library in survey.libraries
    ]


def _folders(survey: "Survey") -> list[tuple[Part, ...]]:
    return [
        (
            (place.name, styles.NAME),
            ("writable", styles.GOOD) if place.writable else ("not writable", styles.BAD),
            _size(place.free_bytes),
            f"{place.path} ({place.set_by})",
        )
        for place in survey.places
    ]


def _figures(check: "MachineCheck") -> list[tuple[Part, ...]]:
    def shown(number: float | str | None, scale: float, unit: str) -> str:
        return f"{number / scale:,.1f} {unit}" if isinstance(number, float) else "not measured"

    rows: list[tuple[Part, ...]] = []
    for name, ceilings in check.ceilings.items():
        rows.append(
            (
                (name, styles.NAME),
                shown(ceilings["memory_read"], 1e9, "GB/s"),
                shown(ceilings["memory_copy"], 1e9, "GB/s"),
                shown(ceilings["linear"], 1e9, "GFLOP/s"),
                shown(ceilings["launch"], 1e-6, "us"),
                str(ceilings["measured"]),
            )
        )
    return rows
