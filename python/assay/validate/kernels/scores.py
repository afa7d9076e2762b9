"""Kernel times: the relations of the stack against held-out measurements.

python -m assay.validate.kernels.scores                    every system, from the installed tables
python -m assay.validate.kernels.scores --sample FILE      the rows of a CSV file
python -m assay.validate.kernels.scores --json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from assay.catalog import constants
from assay.errors import AssayError
from assay.validate.kernels.operations import OPERATION_RELATIONS, Prediction, constants_of, device
from assay.validate.kernels.tables import OPERATIONS, Column, Mask, Table, load, read_sample

_SPREAD_90 = 1.645


@dataclass(frozen=True)
class LogErrors:
    """Logarithmic errors of predictions and of the roofline, and the predicted spread."""

    predicted: Column
    roofline: Column
    spread: Column


@dataclass(frozen=True)
class KernelScore:
    """Errors of one operation on one system, on held-out measurements."""

    operation: str
    system: str
    framework: str
    cases: int
    median: float
    p90: float
    mape: float
    coverage90: float
    roofline_median: float


def score(table: Table) -> list[KernelScore]:
    """KernelScore the rows of a table: by engine where engines have their own kernels, and together."""
    kind = OPERATION_RELATIONS[table.operation]
    parts: dict[str, LogErrors] = {}
    for engine in kind.engines if kind.by_engine else ("all",):
        mask: Mask = np.isin(table.framework, kind.engines if engine == "all" else [engine])
        if mask.any():
            parts[engine] = errors(table.where(mask), engine if kind.by_engine else None)
    if len(parts) > 1:
        parts["all"] = LogErrors(
            *(
                np.concatenate([getattr(part, name) for part in parts.values()])
                for name in ("predicted", "roofline", "spread")
            )
        )
    return [_score(table, engine, part) for engine, part in parts.items()]


def errors(table: Table, engine: str | None) -> LogErrors:
    """LogErrors of the rows of a table, with the constants of one engine's kernels."""
    kind = OPERATION_RELATIONS[table.operation]
    facts = device(table.system)
    values = constants_of(table.operation, table.system, engine)
    names = tuple(name for name in values if not name.endswith("spread"))
    predicted = Prediction(table, names, facts)(np.array([values[name] for name in names]))
    roofline = predicted[-1] / facts["kernels.device.memory_bandwidth"]
    if len(predicted) == 3:
        multiple = facts["gpu.rate_8bit"] if kind.element < 2 else 1.0
        roofline = np.maximum(
            roofline, predicted[1] / (multiple * facts["kernels.device.peak_flops"])
        )
    return LogErrors(
        np.log(predicted[0] / table.seconds),
        np.log(roofline / table.seconds),
        np.full(len(table), values[kind.spread]),
    )


def _score(table: Table, label: str, part: LogErrors) -> KernelScore:
    absolute = np.abs(np.expm1(part.predicted))
    return KernelScore(
        table.operation,
        table.system,
        label,
        len(absolute),
        float(np.median(absolute)),
        float(np.quantile(absolute, 0.9)),
        float(absolute.mean()),
        float(np.mean(np.abs(part.predicted) <= _SPREAD_90 * part.spread)),
        float(np.median(np.abs(np.expm1(part.roofline)))),
    )


def score_installed() -> list[KernelScore]:
    """KernelScore every calibrated system on the held-out rows of the installed tables."""
    scores = []
    for system in constants.calibrated():
        for operation in OPERATIONS:
            table = load(operation, system)
            if table is not None:
                scores += score(table.where(table.held_out))
    return scores


def score_sample(path: Path) -> list[KernelScore]:
    """KernelScore the rows of a CSV file."""
    return [line for table in read_sample(path) for line in score(table)]


def report(scores: list[KernelScore]) -> str:
    """Scores as a table of text."""
    header = "operation system     tables  cases   median     p90    mean  in 90 %  roofline median"
    lines = [header]
    for s in scores:
        lines.append(
            f"{s.operation:9} {s.system:10} {s.framework:6} {s.cases:6}  {s.median:6.2%} {s.p90:7.2%} "
            f"{s.mape:7.2%} {s.coverage90:8.1%} {s.roofline_median:15.1%}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the scores."""
    parser = argparse.ArgumentParser(
        prog="python -m assay.validate.kernels.scores", description=__doc__
    )
    parser.add_argument("--sample", type=Path, help="score the rows of this CSV file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        scores = score_sample(options.sample) if options.sample else score_installed()
    except AssayError as error:
        parser.exit(error.exit_code, f"error: {error.message}\nhint: {error.hint}\n")
    print(json.dumps([asdict(s) for s in scores], indent=1) if options.json else report(scores))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
