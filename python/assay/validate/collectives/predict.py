"""Published collectives inside a node, predicted through the stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from assay.catalog import accelerators, constants
from assay.errors import AssayError, InputError
from assay.validate.cases import Case
from assay.validate.collectives.tables import (
    BYTES,
    CONSTANTS,
    ENGINES,
    OPERATIONS,
    Measured,
    evaluate,
    link_bandwidth,
    reducible_in_switch,
    spread_of,
)
from assay.validate.measured_package import is_package_row
from assay.validate.score import Row

QUANTILE_95 = 1.645
"""Standard deviations between the median of a normal distribution and its 95 % quantile."""


def predict(cases: Sequence[Case]) -> list[Row]:
    """One row for every observed time, with the reason where there is no prediction."""
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
    accelerator = accelerators.find(str(case.inputs.get("system") or case.inputs.get("gpu") or ""))
    known = constants.find(accelerator.name)
    notes += known.notes
    node_ranks = float(accelerator.given.get("interconnect.node_ranks", 8.0))
    if ranks > node_ranks:
        raise InputError(f"{ranks:.0f} ranks: only collectives inside a node are measured")
    values = known.values
    if engine != "nccl":
        values = constants.find(accelerator.name, engine).values
    missing = [name for name in CONSTANTS if name not in values]
    if missing:
        raise InputError(f"no constants of {accelerator.name} for {missing[0]}")
    row = Measured(
        accelerator.name, np.array([operation]), np.array([engine]), np.array([size]), np.array([ranks]),
        np.array([observed / scale]), np.array([reducible_in_switch(str(case.inputs.get("dtype")))]),
    )  # fmt: skip
    empty = replace(row, size=np.array([1.0]))
    time, least = float(evaluate(row, values)[0]), float(evaluate(empty, values)[0])
    passes = 2.0 if operation == "all_reduce" else 1.0
    floor = passes * size * (ranks - 1) / ranks / link_bandwidth(accelerator.name)
    spread = spread_of(operation, values)
    return Row(
        case.id, case.suite, quantity, unit, observed, time * scale,
        lo=time * scale * float(np.exp(-QUANTILE_95 * spread)),
        hi=time * scale * float(np.exp(QUANTILE_95 * spread)),
        terms={"latency": least * scale, "transfer": (time - least) * scale},
        baselines={"roofline": floor * scale}, notes=tuple(notes),
        in_sample=is_package_row(case) and not row.held_out[0],
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
