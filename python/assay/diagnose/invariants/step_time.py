"""The step takes as long as the prediction's interval says."""

from __future__ import annotations

from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import Invariant, Violation

NAME = "step time"


def check(residuals: Residuals) -> list[Violation]:
    """Compare the median step with lo and hi of the graph's step."""
    waterfall = residuals.waterfall
    step = residuals.graph.totals.get("step")
    if step is None:
        reason = residuals.graph.missing.get("step", "no prediction of the step")
        return [
            Violation(NAME, "not measured", "step", waterfall.observed_ns, None, None, "ns",
                      reason=reason)
        ]  # fmt: skip
    if step.lo <= waterfall.observed_ns <= step.hi:
        return []
    away = waterfall.observed_ns / step.value - 1
    return [
        Violation(
            NAME, "violated", f"step {waterfall.step}", waterfall.observed_ns, step.lo, step.hi,
            "ns", reason=f"{away:+.0%} of the expected {step.value / 1e3:,.0f} us",
        )
    ]  # fmt: skip


STEP_TIME = Invariant(NAME, "the median step lies within the predicted interval of the step", check)
