"""`assay calibrate`: the ceilings of this machine, measured and stored for predictions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, working

if TYPE_CHECKING:
    from assay.planner.calibrate import Calibration
    from assay.planner.specs import Ceiling

_SCALES: Final[Mapping[str, tuple[tuple[float, str], ...]]] = {
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")),
    "s": ((1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}


def calibrate_command(
    device: Annotated[str, option("--device DEVICE", "Device to measure: cpu or cuda:0.")] = "cpu",
    out: Annotated[
        Path | None,
        option("--out FILE", "Write the calibration to this file instead of this machine's store."),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Measure this machine's ceilings for predictions.

    Read bandwidth by size, linear layers by format and number of tokens, launch and graph-node
    cost, copies: medians with their spread, in under a minute. Samples that other programs
    disturbed are set aside. Predictions for this machine use the stored result.
    """
    from assay.bench.calibration.storing import calibrate_device

    with working(f"calibrating {device}", log=True) as progress:
        stored = calibrate_device(device, out, progress=progress)
    return report_of(stored, lambda canvas: _text(stored.measured, stored.path, canvas), as_json)


def _text(measured: "Calibration", path: str, canvas: Canvas) -> Iterator[Line]:
    yield from facts(
        [
            ("device", f"{measured.device}: {measured.description}"),
            ("stored", path),
            ("took", f"{measured.seconds:.0f} s"),
        ],
        canvas,
    )
    yield ""
    rows = [_row(name, ceiling) for name, ceiling in measured.ceilings.items()]
    yield from table(("ceiling", "median", "10-90 %", "samples"), rows, canvas, right=(1, 2, 3))


def _row(name: str, ceiling: "Ceiling") -> tuple[Part, ...]:
    scale, unit = next(
        (pair for pair in _SCALES[ceiling.unit] if ceiling.value >= pair[0]),
        _SCALES[ceiling.unit][-1],
    )
    low, middle, high = (
        f"{value / scale:.4g}" for value in (ceiling.lo, ceiling.value, ceiling.hi)
    )
    return (
        (name, styles.NAME),
        f"{middle} {unit}",
        (f"{low}-{high}", styles.FAINT),
        str(ceiling.repeats),
    )
