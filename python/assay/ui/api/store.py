"""`/store`: what the team's store holds, from its index on this machine."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from assay.store.finding import LIMIT, find
from assay.store.layout import VARIABLE
from assay.ui.api.reports import REFUSALS, answer

router = APIRouter(prefix="/store", tags=["store"], responses=REFUSALS)


class StorePlace(BaseModel):
    """Where the store is; requests cannot name another."""

    place: str | None
    variable: str
    """What names it."""


@router.get("/place")
def show_place() -> StorePlace:
    """The store that `assay ui` was started with, if any."""
    return StorePlace(place=os.environ.get(VARIABLE) or None, variable=VARIABLE)


@router.get("")
def find_items(
    terms: Annotated[
        str, Query(max_length=400, description="As for the command: model=llama tag=nightly.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1_000, description="Items at most.")] = LIMIT,
) -> Response:
    """Items of the store, the latest first: `assay store find TERMS --json`."""
    return answer(lambda: find(terms.split(), limit=limit), alone=False)
