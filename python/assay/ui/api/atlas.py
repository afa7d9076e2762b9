"""`/atlas`: the layers of the stack, and how a target depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from assay import stack
from assay.cli.atlas import atlas_command
from assay.cli.model import list_command
from assay.cli.output import Report
from assay.ui.api.reports import REFUSALS, answer
from assay.ui.api.scenario import ScenarioQuery

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


def exported(names: Sequence[str]) -> Iterator[tuple[str, Report]]:
    """The answers that the page needs in an exported site, by request."""
    registry = stack.registry()
    yield "atlas", atlas_command(as_json=True)
    for target in registry.targets:
        yield f"atlas?target={target}", atlas_command(target, as_json=True)
    for name in names:
        for _, target in stack.preset(name).targets:
            yield (
                f"atlas?preset={name}&target={target}",
                atlas_command(target, [name], as_json=True),
            )
    for scope in registry.scopes:
        yield f"variables?scope={scope}", list_command(scope=scope, as_json=True)
