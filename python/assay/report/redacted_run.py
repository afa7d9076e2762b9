"""A copy of a run without names and prompts that verifies by itself.

Its journal is chained anew over what is left, its report written again from the same claims, and its
last record says what the originals were: the head of their journal and the SHA-256 of every file.
Who has the originals can show that the copy is theirs; a signature of the copy says who made it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.errors import CheckFailedError, InputError
from assay.files import read_json
from assay.improve.journal import journal as journals
from assay.improve.journal.chain import GENESIS, Record, plain, to_line
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.observe.trace import staged
from assay.report.claim import Claim, Provenance
from assay.report.redaction import Redactor
from assay.report.run import store_report
from assay.report.run_files import HEAD, JOURNAL, REPORT_DATA, REPORTS, RunFiles, sha256
from assay.report.storing import from_data
from assay.report.verify import verify
from assay.report.writer import writer_digest

KIND: Final = "redacted"


def redact_run(
    folder: Path, target: Path, redactor: Redactor, only: Collection[str] | None = None
) -> Mapping[str, Any]:
    """Write the copy to `target`, which must not exist, whole or not at all; its last record.

    Of the files that claims may rest on, `only` those of these names, if given.
    """
    reading = journals.read(folder)
    if reading.of("replica"):
        raise InputError(f"run {folder.name}: expected a run of one engine, got one of a fleet")
    report = reading.last("report")
    if report is None:
        raise InputError(f"run {folder.name}: expected a report, got none")
    if failures := verify(folder).failures:
        raise CheckFailedError(
            f"run {folder.name} is not verified and is not redacted: {failures[0].name}",
            "assay verify-report lists what failed",
        )
    known = RunFiles(folder).evidence_files()
    names = {name: digest for name, digest in known.items() if only is None or name in only}
    with staged(target) as staging:
        left_out = redactor.folder(folder, staging, [*names])
        originals = {**names, **{name: sha256(folder / name) for name in REPORTS}}
        statement = {"head": reading.head, "files": originals, "left_out": left_out}
        _chain_anew(folder, staging, reading.records, report, redactor, statement)
        problems = [check.name for check in verify(staging).failures] or redactor.left_in(staging)
        if problems:
            raise CheckFailedError(f"run {folder.name} cannot be redacted: {problems[0]}")
    return statement


def _chain_anew(
    folder: Path,
    staging: Path,
    records: tuple[Record, ...],
    report: Record,
    redactor: Redactor,
    statement: Mapping[str, Any],
) -> None:
    previous, lines = GENESIS, b""
    for record in records:
        if record.number == report.number:
            _write_journal(staging, lines, record.number, previous)
            data = _write_report(folder, staging, previous, redactor)
        else:
            data = _redacted(record.data, redactor)
        previous, line = to_line(previous, record.number, record.at, record.kind, data)
        lines += line
    # The time of the last record: the same run redacted again is the same.
    at, number = records[-1].at, len(records)
    previous, line = to_line(previous, number, at, KIND, statement)
    _write_journal(staging, lines + line, number + 1, previous)


def _redacted(data: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Data of a record; the hash of settings is that of what they are now."""
    before = plain(data)
    after: dict[str, Any] = redactor.data(before)
    settings = before.get("settings")
    if settings and before.get("hash") == configuration_hash(settings):
        after["hash"] = configuration_hash(after["settings"])
    return after


def _write_report(folder: Path, staging: Path, head: str, redactor: Redactor) -> dict[str, Any]:
    """The report of the copy; the data of its record."""
    claims, provenance = _report(folder, redactor)
    files = RunFiles(staging)
    details = {**provenance.details, "writer": writer_digest()}
    provenance = replace(
        provenance, journal_head=head, files=files.evidence_files(), details=details
    )
    store_report(RunFolder(staging), claims, provenance)
    digests = {**provenance.files, **{name: files.digest(name) for name in REPORTS}}
    return {"files": digests, "claims": len(claims), "journal_head": head}


def _report(folder: Path, redactor: Redactor) -> tuple[list[Claim], Provenance]:
    return from_data(redactor.data(read_json("report", folder / REPORT_DATA)))


def _write_journal(folder: Path, lines: bytes, count: int, head: str) -> None:
    (folder / JOURNAL).write_bytes(lines)
    (folder / HEAD).write_bytes(journals.head_text(count, head))
