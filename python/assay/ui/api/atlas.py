"""`/atlas`: the layers of the stack, and how a target depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from assay import stack
from assay.scenario import built_in
from assay.scenario.questions import layers as questions
from assay.scenario.questions.graph import list_variables
from assay.ui.api.graph import EXPORTED
from assay.ui.api.reports import REFUSALS, answer
from assay.ui.api.scenario import ExportedAnswer, ScenarioQuery, compact

router = APIRouter(tags=["atlas"], responses=REFUSALS)


@router.get("/atlas")
def atlas(
    scenario: ScenarioQuery,
    target: Annotated[str | None, Query(description="How it depends on each layer.")] = None,
) -> Response:
    """Layers from the site down to the transistor, and what crosses their borders."""
    return answer(
        lambda: questions.atlas(
            target, preset=scenario.preset, assign=scenario.values, includes=scenario.includes
        )
    )


def exported(names: Sequence[str] = EXPORTED) -> Iterator[tuple[str, str]]:
    """The answers that the page needs in an exported site, as JSON, by request."""
    return ((key, compact(make())) for key, make in _exported(names))


def _exported(names: Sequence[str]) -> Iterator[ExportedAnswer]:
    registry = stack.registry()
    yield "atlas", questions.atlas
    for target in registry.targets:
        yield f"atlas?target={target}", partial(questions.atlas, target)
    for name in names:
        yield f"atlas?preset={name}", partial(questions.atlas, preset=name)
        for _, target in built_in.preset(name).targets:
            key = f"atlas?preset={name}&target={target}"
            yield key, partial(questions.atlas, target, preset=name)
    for scope in registry.scopes:
        yield f"variables?scope={scope}", partial(list_variables, scope=scope)
