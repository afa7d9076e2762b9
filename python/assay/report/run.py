"""Writes the report of a run into its folder, and records its hashes in the journal."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay._native import build_info
from assay.improve.journal.journal import Journal
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.record import RunRecord
from assay.json_records import dumps
from assay.report.claim import Claim, Provenance
from assay.report.claims import build
from assay.report.markdown import write
from assay.report.page import render
from assay.report.price import Price
from assay.report.run_files import REPORT_DATA, REPORT_PAGE, REPORT_TEXT, REPORTS, RunFiles
from assay.report.storing import to_data
from assay.report.writer import writer_digest


def write_run(
    folder: Path, record: RunRecord, journal: Journal, price: Price | None = None
) -> Path:
    """Write report.md, report.html and report.json; the path of the page.

    `price` is what an hour of the machine costs; None leaves cost a named gap.

    All other files of the folder are complete by now: their SHA-256 go into the journal's `report`
    record with those of the report itself.
    """
    files = RunFiles(folder)
    claims, gaps = build(record, files, price)
    provenance = provenance_of(record, files, journal.head, gaps)
    record_report(files, claims, provenance, journal)
    return folder / REPORT_PAGE


def write_again(folder: Path, claims: list[Claim], provenance: Provenance) -> None:
    """Write a stored report in the words and pictures of this build; its claims stay the same.

    The caller has verified the run: a report that does not hold is not to get new hashes.
    """
    files = RunFiles(folder)
    with Journal.open(folder) as journal:
        details = {**provenance.details, "writer": writer_digest()}
        details |= {key: portable(folder, details.get(key) or ()) for key in ("notes", "gaps")}
        again = replace(
            provenance,
            journal_head=journal.head,
            created_at=time.time(),
            degradations=tuple(portable(folder, provenance.degradations)),
            details=details,
        )
        record_report(files, claims, again, journal)


def record_report(
    files: RunFiles, claims: list[Claim], provenance: Provenance, journal: Journal
) -> None:
    """Write the report of a run, and its hashes into the journal."""
    store_report(RunFolder(files.folder), claims, provenance)
    journal.append(
        "report",
        files={**provenance.files, **{name: files.digest(name) for name in REPORTS}},
        claims=len(claims),
        journal_head=provenance.journal_head,
    )


def portable(folder: Path, texts: Iterable[str]) -> list[str]:
    """Texts without the place of the run: a report is passed on, its folder is nobody's business."""
    return [_without(str(text), folder.name) for text in dict.fromkeys(texts)]


def _without(text: str, name: str) -> str:
    """A text in which paths of the run's folder begin inside it."""
    words = []
    for word in text.split(" "):
        before, inside, after = word.partition(f"{name}/")
        words.append(after if inside and "/" in before else word)
    return " ".join(words)


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
        assay_version=build_info()["version"],
        fingerprint=dict(record.fingerprint),
        journal_head=journal_head,
        files=files.evidence_files(),
        degradations=tuple(portable(files.folder, record.degradations)),
        details=_details(record, portable(files.folder, gaps)),
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
        "skipped": [list(lever) for lever in record.skipped],
        "phases": [list(phase) for phase in record.phases],
        "budget_s": record.budget_s,
        "seed": record.seed,
        "notes": portable(outcome.run, outcome.notes),
        "gaps": gaps,
        "writer": writer_digest(),
    }
