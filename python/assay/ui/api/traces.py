"""`/traces`: stored traces, their timelines and what `assay diagnose` says of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from assay.observe import store
from assay.ui.api.reports import REFUSALS, answer
from assay.ui.errors import NotThereError
from assay.ui.timelines import timeline_response

router = APIRouter(prefix="/traces", tags=["traces"], responses=REFUSALS)

TraceName = Annotated[str, Path(max_length=255, description="The name of a stored trace.")]
ModelName = Annotated[
    str | None,
    Query(pattern=r"^models/[A-Za-z0-9._-]+$", description="A model of the catalog that ran."),
]


def _stored_trace(name: str) -> str:
    """What a command calls a stored trace; other paths, which commands take, are not reached."""
    for trace in store.stored():
        if trace.name == name:
            # Where the folder that assay ui was started in holds something of that name, a command
            # would open that.
            return str(trace.path) if store.find(name) != trace.path else name
    raise NotThereError(f'unknown trace "{name}"', "assay trace list names the stored ones")


@router.get("")
def list_traces() -> Response:
    """The stored traces, the latest first: `assay trace list --json`."""
    return answer(store.list_traces, alone=False)


@router.get("/{trace}/summary")
def summary(trace: TraceName) -> Response:
    """Steps, operations and kernels of a trace: `assay trace summary TRACE --json`."""
    from assay.observe.structure.summary import summarize_trace

    path = _stored_trace(trace)
    return answer(lambda: summarize_trace(path), alone=False)


@router.get("/{trace}/diagnosis")
def diagnosis(trace: TraceName, model: ModelName = None) -> Response:
    """Where the time of a step went, and why: `assay diagnose TRACE --json`."""
    from assay.diagnose.examination import diagnose_trace

    path = _stored_trace(trace)
    return answer(lambda: diagnose_trace(path, model=model))


@router.get("/{trace}/timeline", response_class=Response)
def timeline(trace: TraceName) -> Response:
    """A trace as compressed columns for the timeline."""
    return timeline_response(_stored_trace(trace), trace)
