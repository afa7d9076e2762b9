"""Graph sizes: a batch between two captured sizes computes the rows of the larger one."""

from __future__ import annotations

from typing import Final

from assay.engine.runner.graph_capture import capture_size
from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, inverse
from assay.improve.policy.step_ratio import step_ratio

KNOB: Final = "graph_buckets"


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """The ratio for more or fewer captured sizes; a text says why there is none."""
    before, after = known.settings.get(KNOB), candidate.changes.get(KNOB)
    if len(candidate.changes) > 1 or not isinstance(before, int) or not isinstance(after, int):
        return "not a change of graph sizes"
    if before <= 0 or after <= 0:
        return "not a change of graph sizes: with graphs or without"
    depth = known.settings.get("speculation_depth")
    rows = known.batch() * (1 + (depth if isinstance(depth, int) else 0))
    padded = capture_size(rows, before), capture_size(rows, after)
    step = step_ratio(known, *padded)
    return Prediction(
        inverse(step.ratio),
        f"a batch of {rows} rows runs as {padded[0]} before, {padded[1]} after; step by {step.by}",
    )
