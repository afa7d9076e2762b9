"""Refines a calibration by the outcomes of earlier sets: times by rows, and of a key read.

The recording times small prefills; outcomes are decode steps of whole batches under the load that
measurements meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.diagnose.replay.step_cost import ObservedCost, StepShape
from assay.observe.operations import parts
from whatif_cases import cases
from whatif_model import _LINEAR, read_cost
from whatif_workloads import OUTPUT


def refine(calibration: dict[str, Any], outcomes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The calibration with curves through measured batches; `outcomes` by name of the set."""
    cost = read_cost(calibration["cost"])
    key = _key_factor(cost, outcomes)
    base, sequence, per_key, pair = cost.attention
    data = {**calibration["cost"], "attention": [base, sequence, per_key * key, pair]}
    cost = read_cost(data)
    ratios = _batch_ratios(outcomes)
    data["curves"] = {
        name: _through(cost, name, curve, ratios) for name, curve in data["curves"].items()
    }
    return {**calibration, "refined_by": sorted(outcomes), "cost": data}


def _plain(setup: Any) -> bool:
    return setup.workload == "decode" and setup.knobs == {"threads": 1} and not setup.sampling


def _batch_ratios(outcomes: dict[str, dict[str, Any]]) -> dict[int, float]:
    """Measured step of a batch over that of one sequence, both behind prompts of 64 tokens."""
    found: dict[int, list[float]] = {}
    for name, data in outcomes.items():
        rows = {one["name"]: one for one in data["outcomes"] if "refused" not in one}
        for case in cases(name):
            known = case.name in rows and _plain(case.base) and _plain(case.changed)
            if known and case.base.prompt == case.changed.prompt == 64 and case.base.batch == 1:
                change = 1 + rows[case.name]["change"]
                found.setdefault(case.changed.batch, []).append(case.changed.batch * change)
    return {batch: float(np.median(values)) for batch, values in sorted(found.items())}


def _key_factor(cost: ObservedCost, outcomes: dict[str, dict[str, Any]]) -> float:
    """Measured growth with the context over the predicted one, for single sequences."""
    factors = []
    for name, data in outcomes.items():
        rows = {one["name"]: one for one in data["outcomes"] if "refused" not in one}
        for case in cases(name):
            known = case.name in rows and _plain(case.base) and _plain(case.changed)
            if not known or case.base.batch != 1 or case.changed.batch != 1:
                continue
            before, after = (_step(cost, 1, one.prompt) for one in (case.base, case.changed))
            if case.base.prompt != case.changed.prompt:
                factors.append(rows[case.name]["change"] / (after / before - 1))
    return float(np.median(factors)) if factors else 1.0


def _step(cost: ObservedCost, batch: int, prompt: int) -> float:
    return cost.step_ns(StepShape.decode(batch, prompt + OUTPUT / 2))


def _through(
    cost: ObservedCost, name: str, curve: dict[str, Any], ratios: dict[int, float]
) -> dict[str, Any]:
    """A curve of a linear layer, through the batches that were measured."""
    if not set(parts(name)) & set(_LINEAR):
        return curve
    points = dict(zip(curve["rows"], curve["ns"], strict=True))
    one = _step(cost, 1, 64)
    for batch, ratio in ratios.items():
        found = cost.operations_ns(StepShape.decode(batch, 64 + OUTPUT / 2))
        linear = sum(ns for op, ns in found.items() if set(parts(op)) & set(_LINEAR))
        rest = sum(found.values()) - linear
        points[float(batch)] = found[name] * max((ratio * one - rest) / linear, 0.1)
    rows = sorted(points)
    return {"rows": rows, "ns": [points[row] for row in rows]}
