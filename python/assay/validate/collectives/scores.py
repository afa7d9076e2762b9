"""Collectives inside a node: the relations of the stack against held-out measurements.

python -m assay.validate.collectives.scores          held-out rows of the installed tables
python -m assay.validate.collectives.scores --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from assay.catalog import constants
from assay.errors import AssayError
from assay.stack.collectives import library as collectives_library
from assay.validate.collectives.predict import QUANTILE_95
from assay.validate.collectives.tables import (
    ENGINES,
    SYSTEMS,
    Measured,
    evaluate,
    link_bandwidth,
    load,
    load_direct,
    spread_of,
)


@dataclass(frozen=True)
class CollectiveScore:
    """Errors of one operation on one system, on held-out measurements."""

    operation: str
    system: str
    engine: str
    cases: int
    median: float
    p90: float
    coverage90: float
    roofline_median: float


def scored(rows: Measured, values: Mapping[str, float], label: str) -> CollectiveScore:
    """Score rows of one operation."""
    time = evaluate(rows, values)
    error = np.log(time / rows.seconds)
    absolute = np.abs(np.expm1(error))
    passes = np.where(rows.operation == "all_reduce", 2.0, 1.0)
    floor = passes * rows.size * (rows.ranks - 1) / rows.ranks / link_bandwidth(rows.system)
    return CollectiveScore(
        label, rows.system, str(rows.engine[0]), len(rows), float(np.median(absolute)),
        float(np.quantile(absolute, 0.9)),
        float(np.mean(np.abs(error) <= QUANTILE_95 * spread_of(str(rows.operation[0]), values))),
        float(np.median(np.abs(floor / rows.seconds - 1))),
    )  # fmt: skip


def score_installed() -> list[CollectiveScore]:
    """Score every calibrated system on the held-out rows of the installed tables."""
    scores = []
    for system in SYSTEMS:
        rows = load(system)
        rows = rows.where(rows.held_out)
        values = constants.given(system)
        scores += [
            scored(rows.where(rows.operation == name), values, name)
            for name in collectives_library.OPERATIONS
        ]
        for engine in ENGINES:
            own = load_direct(system, engine)
            own = own.where(own.held_out)
            scores.append(scored(own, constants.given(system, engine), "all_reduce"))
    return scores


def report(scores: Sequence[CollectiveScore]) -> str:
    """Scores as a table of text."""
    lines = ["operation      system     engine  cases   median     p90  in 90 %  roofline median"]
    lines += [
        f"{s.operation:14} {s.system:10} {s.engine:6} {s.cases:6} {s.median:8.2%} {s.p90:7.2%} "
        f"{s.coverage90:8.1%} {s.roofline_median:16.1%}"
        for s in scores
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the scores."""
    parser = argparse.ArgumentParser(
        prog="python -m assay.validate.collectives.scores", description=__doc__
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        scores = score_installed()
    except AssayError as error:
        parser.exit(error.exit_code, f"error: {error.message}\nhint: {error.hint}\n")
    print(json.dumps([asdict(s) for s in scores], indent=1) if options.json else report(scores))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
