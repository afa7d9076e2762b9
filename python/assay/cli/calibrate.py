"""`assay calibrate`: the ceilings of this machine, measured and stored for predictions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assay.cli import options
from assay.cli.output import FAINT, NAME, Canvas, Line, Part, Report, facts, table, working
from assay.errors import CheckFailedError, InputError

if TYPE_CHECKING:
    from assay.planner.calibrate import Calibration
    from assay.planner.specs import Ceiling

_SCALES: Final[Mapping[str, tuple[tuple[float, str], ...]]] = {
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "s": ((1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}


def calibrate_command(
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="Device to measure: cpu or cuda:0.")
    ] = "cpu",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the calibration to this file instead of this machine's store.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Measure this machine's ceilings for predictions.

    Read bandwidth by size, linear layers by format and number of tokens, launch and graph-node
    cost, copies: medians with their spread, in under a minute. Samples that other programs
    disturbed are set aside. Predictions for this machine use the stored result.
    """
    from assay.bench.calibration import calibrate
    from assay.planner.calibrate import save
    from assay.runtime.hardware import Device

    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise InputError(f"--out: cannot write {out}", "name a file in a folder that exists")
    # A new device object, so that its records, pool and clock are not shared.
    target = Device(device)
    if target.kind == "sim":
        raise InputError("a simulated device has no ceilings", "--device cpu")
    with working(f"calibrating {device}", log=True) as progress:
        measured = calibrate(target, progress)
    path = save(measured, out)
    problem = None
    if measured.failed:
        problem = CheckFailedError(f"wrong results, left out: {', '.join(measured.failed)}")
    return Report(
        {**measured.to_data(), "path": str(path)},
        lambda canvas: _text(measured, path, canvas),
        as_json,
        problem,
        notes=measured.notes,
    )


def _text(measured: "Calibration", path: Path, canvas: Canvas) -> Iterator[Line]:
    yield from facts(
        [
            ("device", f"{measured.device}: {measured.description}"),
            ("stored", str(path)),
            ("took", f"{measured.seconds:.0f} s"),
        ],
        canvas,
    )
    yield ""
    rows = [_row(name, one) for name, one in measured.ceilings.items()]
    yield from table(("ceiling", "median", "10-90 %", "samples"), rows, canvas, right=(1, 2, 3))


def _row(name: str, one: "Ceiling") -> tuple[Part, ...]:
    scale, unit = next(
        (pair for pair in _SCALES[one.unit] if one.value >= pair[0]), _SCALES[one.unit][-1]
    )
    low, middle, high = (f"{value / scale:.4g}" for value in (one.lo, one.value, one.hi))
    return ((name, NAME), f"{middle} {unit}", (f"{low}-{high}", FAINT), str(one.repeats))
