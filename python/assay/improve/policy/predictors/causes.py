"""The time that a lever could save at most: that of the causes and terms that it addresses."""

from __future__ import annotations

from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, between


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """Bounds of the ratio: nothing, or all of the addressed time; a text says why there are none."""
    if known.diagnosis is None:
        return "no diagnosis"
    lever = known.levers.get(candidate.levers[0]) if len(candidate.levers) == 1 else None
    if lever is None or not lever.addresses:
        return "it addresses no cause by name"
    waterfall = known.diagnosis.residuals.waterfall
    whole = waterfall.observed_ns
    if not whole:
        return "the diagnosed step has no time"
    causes = [one for one in known.diagnosis.causes if one.name in lever.addresses]
    named = {term for one in causes for term in one.part_of}
    terms = [
        one for one in waterfall.terms if one.name in lever.addresses and one.name not in named
    ]
    within = {one.name for one in causes}
    saved = sum(one.ns_per_token for one in causes if one.within not in within)
    saved += sum(one.ns for one in terms)
    share = min(saved / whole, 0.99)
    if share <= 0:
        return "the causes that it addresses take no time here"
    words = ", ".join([*(one.name for one in causes), *(one.name for one in terms)])
    return Prediction(
        between(1.0, 1 / (1 - share)), f"at most the {share:.1%} of a step of: {words}"
    )
