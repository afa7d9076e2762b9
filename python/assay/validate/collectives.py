"""Collectives inside a node: the relations of the stack against measurements that no fit has seen.

python -m assay.validate.collectives          held-out rows of the installed tables
python -m assay.validate.collectives --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from assay.catalog import accelerators, constants
from assay.errors import AssayError, InputError
from assay.stack import collectives
from assay.validate.cases import Case
from assay.validate.collective_tables import (
    BYTES,
    CONSTANTS,
    ENGINES,
    OPERATIONS,
    SYSTEMS,
    Measured,
    evaluate,
    link_bandwidth,
    load,
    load_direct,
    reducible_in_switch,
    spread_of,
)
from assay.validate.score import Row

QUANTILE_95 = 1.645
"""Standard deviations between the median of a normal distribution and its 95 % quantile."""


def predict(cases: Sequence[Case]) -> list[Row]:
    """One row for every observed time of a collective; what cannot be predicted says why."""
    return [row for case in cases for row in _predict(case)]


def handles(case: Case) -> bool:
    """Whether a case is a collective."""
    return str(case.inputs.get("op", "")).lower() in OPERATIONS


def _predict(case: Case) -> list[Row]:
    observed = {k: float(v) for k, v in case.observed.items() if k in ("latency_ms", "latency_us")}
    rows = []
    for quantity, value in observed.items():
        unit = quantity.rpartition("_")[2]
        scale = {"ms": 1e3, "us": 1e6}[unit]
        try:
            rows.append(_row(case, quantity, unit, scale, value))
        except AssayError as error:
            rows.append(Row(case.id, case.suite, quantity, unit, value, None, gap=error.message))
    return rows


def _row(case: Case, quantity: str, unit: str, scale: float, observed: float) -> Row:
    notes: list[str] = []
    operation, ranks, size, engine = _shape(case, notes)
    found = accelerators.find(str(case.inputs.get("system") or case.inputs.get("gpu") or ""))
    known = constants.find(found.name)
    notes += known.notes
    node_ranks = float(found.base.get("interconnect.node_ranks", 8.0))
    if ranks > node_ranks:
        raise InputError(f"{ranks:.0f} ranks: only collectives inside a node are measured")
    values = known.values
    if engine != "nccl":
        values = constants.find(found.name, engine).values
    missing = [name for name in CONSTANTS if name not in values]
    if missing:
        raise InputError(f"no constants of {found.name} for {missing[0]}")
    row = Measured(
        found.name, np.array([operation]), np.array([engine]), np.array([size]), np.array([ranks]),
        np.array([observed / scale]), np.array([reducible_in_switch(str(case.inputs.get("dtype")))]),
    )  # fmt: skip
    empty = replace(row, size=np.array([1.0]))
    time, least = float(evaluate(row, values)[0]), float(evaluate(empty, values)[0])
    passes = 2.0 if operation == "all_reduce" else 1.0
    floor = passes * size * (ranks - 1) / ranks / link_bandwidth(found.name)
    spread = spread_of(operation, values)
    return Row(
        case.id, case.suite, quantity, unit, observed, time * scale,
        lo=time * scale * float(np.exp(-QUANTILE_95 * spread)),
        hi=time * scale * float(np.exp(QUANTILE_95 * spread)),
        terms={"latency": least * scale, "transfer": (time - least) * scale},
        baselines={"roofline": floor * scale}, notes=tuple(notes),
    )  # fmt: skip


def _shape(case: Case, notes: list[str]) -> tuple[str, float, float, str]:
    inputs = case.inputs
    operation = OPERATIONS[str(inputs["op"]).lower()]
    if "num_gpus" not in inputs:
        raise InputError("the number of GPUs is not stated")
    if "message_size_bytes" in inputs:
        size = float(inputs["message_size_bytes"])
    elif "message_size_elements" in inputs:
        kind = str(inputs.get("dtype", ""))
        if kind not in BYTES:
            notes.append("number format not stated: two bytes an element")
        size = float(inputs["message_size_elements"]) * BYTES.get(kind, 2)
    else:
        raise InputError("the size of the message is not stated")
    engine = str(inputs.get("framework", "nccl")).lower()
    if engine not in ENGINES or operation != "all_reduce":
        engine = "nccl"
    return operation, float(inputs["num_gpus"]), size, engine


@dataclass(frozen=True)
class CollectiveScore:
    """How predictions of one operation on one system compare with held-out measurements."""

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
            for name in collectives.OPERATIONS
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
        prog="python -m assay.validate.collectives", description=__doc__
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
