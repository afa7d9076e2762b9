"""What the page of a run shows besides what commands print: sequences, plan, journal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from assay.errors import InputError
from assay.files import read_json
from assay.improve.engines.process import is_running
from assay.improve.journal import active, journal as journals
from assay.improve.journal.run_folder import RunFolder
from assay.report import derivations
from assay.report.run_files import EXPERIMENTS, PLAN, REPORT_DATA, RunFiles, selected
from assay.report.storing import from_data
from assay.ui.events import STILL_HERE, event

POLL_SECONDS: Final = 0.4
"""How often the journal of a run under way is looked at."""
ENDS: Final = ("finished", "recovered")
"""Records after which a journal does not grow."""
_LONG: Final = ("figures", "settings", "gates", "files", "evidence")
"""Fields of journal records that the live view does not show."""


def sequences(run: RunFolder) -> dict[str, Any]:
    """The confidence sequence of every comparison, look by look, as the report derives them."""
    files = RunFiles(run.path)
    if not files.has(REPORT_DATA) or not files.has(EXPERIMENTS):
        return {"run": run.id, "threshold": None, "confidence": None, "experiments": []}
    claims, provenance = from_data(read_json("report", files.path(REPORT_DATA)))
    details = provenance.details
    confidence = float(details.get("confidence") or 0.95)
    experiments = []
    for claim in claims:
        if not any(proof.rule == derivations.RATIO for proof in claim.evidence[:1]):
            continue
        rows = selected(files.blocks, claim.evidence[0].select)
        looks = derivations.looks(rows, str(details.get("better")), 1 - confidence)
        experiments.append(
            {
                "claim": claim.name,
                "statement": claim.statement,
                "verdict": claim.verdict,
                "details": dict(claim.details),
                "looks": [{"value": look.value, "lo": look.lo, "hi": look.hi} for look in looks],
            }
        )
    return {
        "run": run.id,
        "threshold": details.get("threshold"),
        "confidence": confidence,
        "experiments": experiments,
    }


def plan(run: RunFolder) -> dict[str, Any]:
    """What was predicted before the first experiment; rows of the trace are left out."""
    files = RunFiles(run.path)
    if not files.has(PLAN):
        return {"run": run.id, "plan": None}
    kept = {name: value for name, value in files.plan.items() if name != "waterfall"}
    kept["waterfall"] = [
        {name: value for name, value in term.items() if name != "rows"}
        for term in files.plan.get("waterfall") or []
        if isinstance(term, Mapping)
    ]
    return {"run": run.id, "plan": kept}


async def journal_events(run: RunFolder) -> AsyncIterator[str]:
    """The records of a journal, and those that are added while the run goes on."""
    path = run.path / journals.NAME
    read, rest = 0, b""
    while True:
        content = await asyncio.to_thread(_tail, path, read)
        read += len(content)
        *lines, rest = (rest + content).split(b"\n")
        ended = False
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                yield event("damaged", {"statement": "a record of the journal cannot be read"})
                return
            ended = record.get("kind") in ENDS
            yield event("record", _short(record))
        if not content:
            if ended or not await asyncio.to_thread(is_under_way, run):
                yield event("end", {"run": run.id})
                return
            await asyncio.sleep(POLL_SECONDS)
            yield STILL_HERE


def _tail(path: Any, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        data: bytes = file.read(1 << 20)
        return data


def _short(record: Mapping[str, Any]) -> dict[str, Any]:
    data = {name: value for name, value in record["data"].items() if name not in _LONG}
    return {"number": record["number"], "at": record["at"], "kind": record["kind"], "data": data}


def is_under_way(run: RunFolder) -> bool:
    """Whether a process still looks after the run."""
    return any(
        active_run.run.id == run.id and active_run.is_attended
        for active_run in active.active_runs()
    )


def stop(run: RunFolder) -> dict[str, Any]:
    """Interrupt a run as ctrl-c would: it restores the configuration and ends."""
    for active_run in active.active_runs():
        if active_run.run.id != run.id or active_run.controller is None:
            continue
        # A process id alone may be another process by now.
        if active_run.controller.pid is not None and is_running(active_run.controller):
            os.kill(active_run.controller.pid, signal.SIGINT)
            return {
                "run": run.id,
                "statement": "interrupted: it restores the configuration, then ends",
            }
    raise InputError(
        f"run {run.id} is not under way: expected one that is",
        "a run that has ended is undone by assay rollback",
    )
