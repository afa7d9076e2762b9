"""Published power usage effectiveness against the PUE that the graph computes for a site."""

from __future__ import annotations

from functools import cache

from assay.errors import EvaluationError
from assay.scenario import built_in
from assay.scenario.includes import include
from assay.validate.cases import Case
from assay.validate.score import Row

SCENARIO = "llama3_8b_8_h100_training"
"""Machines of the site: any that run most of the time."""

CLIMATES = {"lulea": "nordic_dry"}
"""Sites of the catalog by a word of the operator's name."""
ASSUMED = "temperate_evaporative"


def predict_pue(case: Case, observed: float) -> Row:
    """The PUE of a site with the climate that the case names, else of a temperate one."""
    operator = str(case.inputs.get("operator", "")).lower()
    site = next((site for word, site in CLIMATES.items() if word in operator), None)
    note = f"climate and cooling of sites/{site or ASSUMED}"
    if site is None:
        note = f"a fleet states no climate and no cooling: {note} assumed"
    value, lower, upper = _pue(site or ASSUMED)
    return Row(case.id, case.suite, "pue", "1", observed, value, lower, upper, notes=(note,))


@cache
def _pue(site: str) -> tuple[float, float, float]:
    """The PUE of a site of the catalog, and the ends of its interval."""
    scenario = built_in.preset(SCENARIO)
    entry = include(f"sites/{site}", scenario.registry)
    pue = scenario.with_includes([entry]).resolve("thermal.dc.pue")
    if pue.lower is None or pue.upper is None:
        raise EvaluationError("the PUE of this site has no interval")
    return pue.require_value(), pue.lower, pue.upper
