"""`/root-debt` and `/root`: inputs of the model that nothing computes."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from assay.scenario.questions import health, layers
from assay.ui.api.reports import REFUSALS, answer
from assay.ui.api.scenario import Scenario, ScenarioQuery

router = APIRouter(tags=["debt"], responses=REFUSALS)

KEPT = 16
"""Rankings that stay in memory: sharing out a variance takes seconds."""


@router.get("/root-debt")
def root_debt(
    scenario: ScenarioQuery,
    by: Annotated[str, Query(description="dependents or variance")] = "dependents",
    target: Annotated[str | None, Query(description="Only roots of this variable.")] = None,
    families: Annotated[bool, Query(description="Rank families instead of roots.")] = False,
) -> Response:
    """Roots by the relations that depend on them, or by their share of a target's variance."""
    return answer(lambda: _root_debt(scenario, by, target, families))


@lru_cache(KEPT)
def _root_debt(
    scenario: Scenario, by: str, target: str | None, families: bool
) -> health.RootDebtAnswer:
    return health.root_debt(by, target, families=families, **scenario.given)


@router.get("/root/{name}")
def root(name: str) -> Response:
    """What it would take to resolve one root."""
    return answer(lambda: layers.root(name))
