"""`/ask` and `/headlines`: a question in words, and figures of the built-in scenarios."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from assay.asking import answering
from assay.asking.text import LONGEST
from assay.errors import unknown_name
from assay.scenario import built_in
from assay.ui.api.reports import REFUSALS, alone, answer, send
from assay.ui.headlines import headline

router = APIRouter(tags=["home"], responses=REFUSALS)


@router.get("/ask")
def ask(
    question: Annotated[str, Query(min_length=1, max_length=LONGEST, description="In words.")],
) -> Response:
    """What a question is about, and its answer: `assay ask QUESTION --json`."""
    return answer(lambda: answering.ask(question))


@router.get("/headlines/{preset}")
def headlines(preset: Annotated[str, Path(description="A built-in scenario.")]) -> Response:
    """The targets of a scenario with intervals, and how they move with a stated input."""
    known = built_in.presets()
    if preset not in known:
        raise unknown_name("scenario", preset, known)
    with alone():
        targets = headline(preset)
    return send(targets)
