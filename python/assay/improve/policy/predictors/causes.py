"""The time that a lever could save at most: that of the causes and terms that it addresses."""

from __future__ import annotations

from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, between
from assay.improve.policy.step_now import addressed, step_ns


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """Bounds of the ratio: nothing, or all of the addressed time; a text says why there are none."""
    if known.diagnosis is None:
        return "no diagnosis"
    lever = known.levers.get(candidate.levers[0]) if len(candidate.levers) == 1 else None
    if lever is None or not lever.addresses:
        return "it addresses no cause by name"
    whole = step_ns(known)
    if not whole:
        return "the diagnosed step has no time"
    parts = addressed(known, lever.addresses)
    share = min(sum(parts.values()) / whole, 0.99)
    if share <= 0:
        return "the causes that it addresses take no time here"
    words = ", ".join(parts)
    return Prediction(
        between(1.0, 1 / (1 - share)), f"at most the {share:.1%} of a step of: {words}"
    )
