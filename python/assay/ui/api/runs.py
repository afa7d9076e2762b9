"""`/runs`: what `assay run` did, from its journal, and how to stop or undo it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response, StreamingResponse

from assay.improve.journal import run_folder
from assay.improve.journal.run_folder import RunFolder
from assay.report.stored import read_report
from assay.report.verify import verify_report
from assay.runs.rollback import roll_back
from assay.runs.stored import compare_runs as compared, list_runs as stored_runs, show_run as shown
from assay.ui import run_data
from assay.ui.api.reports import REFUSALS, answer, send
from assay.ui.errors import NotThereError
from assay.ui.events import stream
from assay.ui.timelines import timeline_response

router = APIRouter(prefix="/runs", tags=["runs"], responses=REFUSALS)

# A run is named by its id only: commands also take folders, which a request must not reach.
RunId = Annotated[
    str, Path(pattern=r"^(latest|[0-9]{8}-[0-9]{6}-[a-z0-9-]{1,60})$", description="A run's id.")
]


def _stored_run(run: str) -> RunFolder:
    stored = run_folder.stored()
    if run == run_folder.LATEST and stored:
        return stored[0]
    for stored_run in stored:
        if stored_run.id == run:
            return stored_run
    raise NotThereError(f'unknown run "{run}"', "assay runs list names the stored ones")


@router.get("")
def list_runs() -> Response:
    """The stored runs, the latest first: `assay runs list --json`."""
    return answer(stored_runs, alone=False)


@router.get("/{run}")
def show_run(run: RunId) -> Response:
    """One run from its journal: `assay runs show RUN --json`."""
    name = str(_stored_run(run).path)
    return answer(lambda: shown(name), alone=False)


@router.get("/{run}/compared-with/{other}")
def compare_runs(run: RunId, other: RunId) -> Response:
    """Two runs side by side: `assay runs compare RUN OTHER --json`."""
    first, second = str(_stored_run(run).path), str(_stored_run(other).path)
    return answer(lambda: compared(first, second), alone=False)


@router.get("/{run}/report")
def report(run: RunId) -> Response:
    """The claims of a run and their evidence: `assay report RUN --json`."""
    name = str(_stored_run(run).path)
    return answer(lambda: read_report(name), alone=False)


@router.get("/{run}/verification")
def verification(run: RunId) -> Response:
    """Every claim derived again from the rows: `assay verify-report RUN --json`."""
    name = str(_stored_run(run).path)
    return answer(lambda: verify_report(name), alone=False)


@router.get("/{run}/sequences")
def sequences(run: RunId) -> Response:
    """The confidence sequence of every experiment, look by look."""
    return send(run_data.sequences(_stored_run(run)))


@router.get("/{run}/plan")
def plan(run: RunId) -> Response:
    """What was predicted before the first experiment."""
    return send(run_data.plan(_stored_run(run)))


@router.get("/{run}/timeline", response_class=Response)
def timeline(run: RunId) -> Response:
    """The trace of a run, as compressed columns for the timeline."""
    folder = _stored_run(run)
    if not (folder.trace / "header.json").is_file():
        raise NotThereError(f"run {folder.id} has no trace", "a run captures one at its start")
    return timeline_response(str(folder.trace), folder.id)


@router.get("/{run}/events", response_class=StreamingResponse)
def events(run: RunId) -> StreamingResponse:
    """Records of the journal as server-sent events, while the run goes on."""
    return stream(run_data.journal_events(_stored_run(run)))


@router.post("/{run}/stop")
def stop(run: RunId) -> Response:
    """Interrupt a run under way, as ctrl-c does: it restores the configuration, then ends."""
    return send(run_data.stop(_stored_run(run)))


@router.post("/{run}/rollback")
def rollback(run: RunId) -> Response:
    """Restore the settings of before the run: `assay rollback RUN --json`."""
    name = str(_stored_run(run).path)
    return answer(lambda: roll_back(name), alone=False)
