"""`/receipt`, `/cone`, `/walk`, `/resolve`, `/show`, `/diff` and lists of names: the graph behind a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from assay import stack
from assay.scenario import built_in
from assay.scenario.questions import comparing, graph as questions, receipts, resolving, walking
from assay.ui.api.reports import REFUSALS, answer
from assay.ui.api.scenario import (
    MOST_VALUES,
    ExportedAnswer,
    Scenario,
    ScenarioQuery,
    check_entry,
    check_preset,
    compact,
)

router = APIRouter(tags=["graph"], responses=REFUSALS)

KEPT = 32
"""Answers of each kind that stay in memory: a page asks again for what it showed before."""


@router.get("/receipt/{variable}")
def receipt(variable: str, scenario: ScenarioQuery) -> Response:
    """What a value is made of: every line once, with shares, intervals and equations."""
    return answer(lambda: _receipt(variable, scenario))


@lru_cache(KEPT)
def _receipt(variable: str, scenario: Scenario) -> receipts.ReceiptAnswer:
    return receipts.receipt(variable, **scenario.given)


@router.get("/resolve/{variable}")
def resolve(variable: str, scenario: ScenarioQuery) -> Response:
    """A value with its trace, missing inputs, constraints and validity."""
    return answer(lambda: _resolve(variable, scenario))


@lru_cache(KEPT)
def _resolve(variable: str, scenario: Scenario) -> resolving.ResolveAnswer:
    return resolving.resolve(variable, **scenario.given)


@router.get("/walk/{start}/{target}")
def walk(start: str, target: str, scenario: ScenarioQuery) -> Response:
    """The chain of relations from one variable to another, with what each step passes on."""
    return answer(lambda: _walk(start, target, scenario))


@lru_cache(KEPT)
def _walk(start: str, target: str, scenario: Scenario) -> walking.WalkAnswer:
    return walking.walk(start, target, **scenario.given)


@router.get("/cone/{variable}")
def cone(
    variable: str,
    direction: Annotated[str, Query(description="up, down or both")] = "up",
    depth: Annotated[int | None, Query(ge=0, description="Most relations to follow.")] = None,
    brief: Annotated[bool, Query(description="Names, layers and inputs only.")] = False,
) -> Response:
    """The variables and relations that a variable depends on, or that depend on it."""
    return answer(lambda: questions.cone(variable, direction, depth, brief=brief))


@router.get("/show/{name}")
def show(name: str) -> Response:
    """A variable, relation or block, with formulas as LaTeX and their unit check."""
    return answer(lambda: questions.describe(name))


@router.get("/diff")
def diff(
    before: Annotated[str, Query(description="A built-in scenario.")],
    target: Annotated[str, Query(description="The variable to compare.")],
    scenario: ScenarioQuery,
    by: Annotated[str, Query(description="source or input")] = "source",
    with_before: Annotated[
        list[str] | None,
        Query(max_length=MOST_VALUES, description="Catalog entries of the scenario before."),
    ] = None,
    assign_before: Annotated[
        list[str] | None,
        Query(max_length=MOST_VALUES, description="Values of the scenario before."),
    ] = None,
) -> Response:
    """The difference of a variable between two scenarios, by what changed.

    `preset`, `with` and `assign` are the scenario after; without a preset it is the one before.
    """
    after = scenario.preset or before
    for entry in with_before or ():
        check_entry(entry)
    return answer(
        lambda: comparing.diff(
            check_preset(before),
            check_preset(after),
            target,
            by=by,
            with_before=with_before,
            assign_before=assign_before,
            with_after=scenario.includes,
            assign_after=scenario.values,
        )
    )


@router.get("/variables")
def variables(
    scope: Annotated[str | None, Query(description="Only this layer.")] = None,
    targets: Annotated[bool, Query(description="Only declared targets.")] = False,
    roots: Annotated[bool, Query(description="Only variables that no relation defines.")] = False,
) -> Response:
    """Variables and constants of the model."""
    return answer(lambda: questions.list_variables(scope=scope, targets=targets, roots=roots))


@router.get("/presets")
def presets() -> Response:
    """The built-in scenarios and their targets."""
    return answer(questions.list_presets)


EXPORTED = ("llama3_8b_h200_serving", "llama3_8b_8_h100_training")
"""The scenarios of an exported site: one that serves and one that trains."""


def exported(names: Sequence[str] = EXPORTED) -> Iterator[tuple[str, str]]:
    """The answers that the pages Receipt and Cone need in an exported site, as JSON, by request."""
    return ((key, compact(make())) for key, make in _exported(names))


def _exported(names: Sequence[str]) -> Iterator[ExportedAnswer]:
    """For each preset its own targets, and what every variable in their cones is."""
    yield "presets", questions.list_presets
    yield "variables?targets=true", partial(questions.list_variables, targets=True)
    graph = stack.registry().graph
    shown: dict[str, None] = {}
    cones: dict[str, None] = {}
    for name in names:
        for _, target in built_in.preset(name).targets:
            scenario = Scenario(name, (), (), ())
            yield f"receipt/{target}?preset={name}", partial(_receipt, target, scenario)
            cones[target] = None
    for target in cones:
        yield f"cone/{target}?brief=true", partial(questions.cone, target, brief=True)
        shown.update(dict.fromkeys((target, *sorted(graph.ancestors(target)))))
    for name in shown:
        yield f"show/{name}", partial(questions.describe, name)
