"""`/atlas`: the layers of the stack, and how a target depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from assay import stack
from assay.cli.atlas import atlas_command
from assay.cli.model import list_command
from assay.scenario import built_in
from assay.ui.api.graph import EXPORTED
from assay.ui.api.reports import REFUSALS, answer
from assay.ui.api.scenario import Answer, ScenarioQuery, compact

router = APIRouter(tags=["atlas"], responses=REFUSALS)


@router.get("/atlas")
def atlas(
    scenario: ScenarioQuery,
    target: Annotated[str | None, Query(description="How it depends on each layer.")] = None,
) -> Response:
    """Layers from the site down to the transistor, and what crosses their borders."""
    return answer(
        lambda: atlas_command(
            target,
            [scenario.preset] if scenario.preset else None,
            list(scenario.values),
            list(scenario.includes),
            as_json=True,
        )
    )


def exported(names: Sequence[str] = EXPORTED) -> Iterator[tuple[str, str]]:
    """The answers that the page needs in an exported site, as JSON, by request."""
    return ((key, compact(make())) for key, make in _exported(names))


def _exported(names: Sequence[str]) -> Iterator[Answer]:
    registry = stack.registry()
    yield "atlas", partial(atlas_command, as_json=True)
    for target in registry.targets:
        yield f"atlas?target={target}", partial(atlas_command, target, as_json=True)
    for name in names:
        yield f"atlas?preset={name}", partial(atlas_command, None, [name], as_json=True)
        for _, target in built_in.preset(name).targets:
            key = f"atlas?preset={name}&target={target}"
            yield key, partial(atlas_command, target, [name], as_json=True)
    for scope in registry.scopes:
        yield f"variables?scope={scope}", partial(list_command, scope=scope, as_json=True)
