"""How the time of a decode step changes with the rows that it computes."""

from __future__ import annotations

import math
from functools import partial
from typing import Final, NamedTuple

from assay.errors import AssayError
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Z90, between, with_model_error
from assay.intervals import Interval

PLANNED_ENGINES: Final = ("assay", "vllm")
"""Engines whose kernels the planner knows."""


class StepRatio(NamedTuple):
    """A step's time after over before, and where it comes from."""

    ratio: Interval
    by: str


def step_ratio(known: Known, before: float, after: float) -> StepRatio:
    """The time of a step of `after` rows over that of `before` rows."""
    if before == after:
        return StepRatio(Interval(1.0, 1.0, 1.0), "the same batch")
    planned = _planned(known, before, after)
    if planned is not None:
        return planned
    # A step that only streams weights takes as long for more rows; one that only computes takes
    # longer in proportion.
    return StepRatio(
        between(1.0, after / before), "bounds: weights streamed once, arithmetic in proportion"
    )


def _planned(known: Known, before: float, after: float) -> StepRatio | None:
    """The planner's ratio, where it knows model, hardware and engine.

    Time of the observed step beyond the planned one may stay as it is (host work) or grow with
    the rows: the interval spans both.
    """
    from assay.diagnose.replay.planned_cost import RATIO_ERROR

    times = [_step_ns(known, rows) for rows in (before, after)]
    if times[0] is None or times[1] is None:
        return None
    exact = times[1] / times[0]
    tpot = known.figure("mean_tpot_ms")
    planned = min(times[0] / (tpot * 1e6), 1.0) if tpot is not None else 1.0
    fixed = 1.0 - planned + planned * exact
    bounds = between(fixed, exact)
    error = math.exp(Z90 * RATIO_ERROR * abs(math.log(exact)))
    figure = Interval(bounds.value, bounds.lo / error, bounds.hi * error)
    return StepRatio(with_model_error(figure), "planner")


def _step_ns(known: Known, rows: float) -> float | None:
    """The planned time of a decode step; between whole rows a straight line."""
    low, high = max(math.floor(rows), 1), max(math.ceil(rows), 1)
    ends = [known.once(("step", whole), partial(_predicted, known, whole)) for whole in (low, high)]
    if None in ends:
        return None
    return float(ends[0] + (ends[1] - ends[0]) * (rows - low if high > low else 0.0))


def _predicted(known: Known, rows: int) -> float | None:
    from assay.planner.predict import predict_graph
    from assay.planner.specs import BatchConfig

    model, hardware, engine = known.model, known.hardware, known.description.engine
    if model is None or hardware is None or engine not in PLANNED_ENGINES:
        return None
    batch = BatchConfig(
        sequences=rows,
        context=known.mean_context(),
        engine=engine,
        weight_dtype=model.weight_dtype or "bf16",
    )
    try:
        return predict_graph(model, hardware, batch).totals["step"].value
    except (AssayError, KeyError):
        return None
