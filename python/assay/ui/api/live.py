"""`/live`: the state of this machine, and the floor of what ran on it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from assay.ui import live
from assay.ui.api.reports import REFUSALS, send
from assay.ui.events import stream

router = APIRouter(prefix="/live", tags=["live"], responses=REFUSALS)


@router.get("/state", response_class=StreamingResponse)
def state() -> StreamingResponse:
    """The devices of this machine once a second, as server-sent events."""
    return stream(live.state_events())


@router.get("/floors")
def floors() -> Response:
    """Floor, prediction and observation of a step in the latest run of each model."""
    return send({"floors": live.floors()})
