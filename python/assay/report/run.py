"""Writes the report of a run into its folder, and records its hashes in the journal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import assay
from assay.improve.journal.journal import Journal
from assay.improve.journal.run_folder import RunFolder
from assay.json_records import dumps
from assay.report.claim import Claim, Provenance
from assay.report.claims import build
from assay.report.markdown import write
from assay.report.page import render
from assay.report.record import RunRecord
from assay.report.run_files import (
    REPORT_DATA,
    REPORT_PAGE,
    REPORT_TEXT,
    REPORTS,
    RunFiles,
)
from assay.report.storing import to_data
from assay.report.writer import writer_digest


def write_run(folder: Path, record: RunRecord, journal: Journal) -> Path:
    """Write report.md, report.html and report.json; the path of the page.

    All other files of the folder are complete by now: their SHA-256 go into the journal's `report`
    record with those of the report itself.
    """
    files = RunFiles(folder)
    claims, gaps = build(record, files)
    provenance = provenance_of(record, files, journal.head, gaps)
    store_report(RunFolder(folder), claims, provenance)
    journal.append(
        "report",
        files={**provenance.files, **{name: files.digest(name) for name in REPORTS}},
        claims=len(claims),
        journal_head=provenance.journal_head,
    )
    return folder / REPORT_PAGE


def store_report(run: RunFolder, claims: list[Claim], provenance: Provenance) -> None:
    """Write the three files of a report, each whole or not at all."""
    from assay.improve.journal.chain import plain

    # What was read back from the data is what is written: texts and data cannot differ.
    data = plain(to_data(claims, provenance))
    page = render(claims, provenance, RunFiles(run.path))
    run.write(REPORT_DATA, f"{dumps(data, 2)}\n".encode())
    run.write(REPORT_TEXT, write(claims, provenance).encode())
    run.write(REPORT_PAGE, page.encode())


def provenance_of(
    record: RunRecord, files: RunFiles, journal_head: str, gaps: list[str]
) -> Provenance:
    """Where the report of a run comes from."""
    return Provenance(
        run=files.folder.name,
        created_at=time.time(),
        assay_version=assay.__version__,
        fingerprint=dict(record.fingerprint),
        journal_head=journal_head,
        files=files.evidence_files(),
        degradations=tuple(dict.fromkeys(record.degradations)),
        details=_details(record, gaps),
    )


def _details(record: RunRecord, gaps: list[str]) -> dict[str, Any]:
    outcome = record.outcome
    return {
        "verdict": outcome.verdict,
        "metric": outcome.metric,
        "better": record.better,
        "threshold": record.threshold,
        "confidence": record.confidence,
        "target": outcome.target,
        "target_met": outcome.target_met,
        "workload": dict(record.workload),
        "machine": dict(record.machine),
        "start": dict(record.start),
        "settings": None if outcome.settings is None else dict(outcome.settings),
        "launch": outcome.launch_command,
        "launch_start": record.launch_start,
        "skipped": [list(one) for one in record.skipped],
        "phases": [list(one) for one in record.phases],
        "budget_s": record.budget_s,
        "seed": record.seed,
        "notes": list(outcome.notes),
        "gaps": gaps,
        "writer": writer_digest(),
    }
