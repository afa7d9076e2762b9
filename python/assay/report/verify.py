"""Derives every claim of a report again from the run's rows, and checks chain and hashes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer
from assay.errors import AssayError, CheckFailedError, InputError
from assay.files import read_json
from assay.improve.journal import journal as journals, run_folder
from assay.improve.journal.chain import canonical, plain
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.intervals import Interval
from assay.plurals import count
from assay.report import derivations, fleet, words
from assay.report.claim import Claim, Provenance
from assay.report.claims import FIGURE, stated
from assay.report.markdown import write
from assay.report.page import render
from assay.report.run_files import (
    EXPERIMENTS,
    JOURNAL,
    REPORT_DATA,
    REPORT_PAGE,
    REPORT_TEXT,
    SIGNATURE,
    RunFiles,
)
from assay.report.signing import fingerprint_of, own_problem, read_public_key, signature_problem
from assay.report.storing import from_data
from assay.report.verdicts import changes_problem, verdict_problem
from assay.report.writer import writer_digest

_NUMBER: Final = re.compile(r"[0-9][0-9,.]*")


def unexplained(text: str, claim: Claim) -> list[str]:
    """Numbers of a text, its figure left out, that no name, setting or change of the claim has.

    >>> claim = Claim("lever.threads", "", None, "x", (), intervention="threads 1 -> 2")
    >>> unexplained("threads=2 is 5 times faster", claim)
    ['5']
    """
    known = " ".join(
        (
            claim.name,
            claim.intervention,
            words.settings(claim.details.get("changes") or {}),
            str(claim.details.get("failure") or ""),
            str(claim.details.get("lever") or ""),
            *(str(evidence.select.get("experiment") or "") for evidence in claim.evidence),
            *(str(evidence.parameters.get("cause") or "") for evidence in claim.evidence),
            "p50 p90 p95 p99" if claim.name.endswith(("level", "ratio")) else "",
        )
    )
    allowed = set(_tokens(known))
    return [token for token in _tokens(text) if token not in allowed]


def _tokens(text: str) -> list[str]:
    return [number.rstrip(".,") for number in _NUMBER.findall(text)]


TOLERANCE: Final = 1e-9
"""Relative difference between a figure and its derivation: sums may be added in another order."""
SIGNED: Final = "signature"
"""The name of checks of report.sig."""
MAY_BE_GONE: Final = "journal.reserve"
"""Space that a full disk takes back; it holds no data."""
MAY_CHANGE: Final = "configuration.json"
"""Changes when a run is rolled back after its report; the journal has the settings."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    name: str
    """A claim's name, a file, or `journal`."""
    passed: bool
    statement: str


@dataclass(frozen=True)
class Verification(Answer):
    """What became of every claim and file of a run: `assay verify-report`."""

    run: str
    checks: tuple[Check, ...]
    extent: Mapping[str, int] = field(default_factory=dict)
    """How many claims, rows, files and records were checked."""

    @property
    def is_verified(self) -> bool:
        """Whether everything holds."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def failures(self) -> list[Check]:
        """What does not hold."""
        return [check for check in self.checks if not check.passed]

    def to_json(self) -> dict[str, Any]:
        """Every check, passed or not."""
        return {
            "run": self.run,
            "verified": self.is_verified,
            "checks": [asdict(check) for check in self.checks],
        }


def verify_report(run: str, key: str | Path | Sequence[str | Path] | None = None) -> Verification:
    """Derive every claim of a run's report again from its rows; what differs is a problem.

    With `key`, a file with an Ed25519 public key in PEM, the run must be signed by it, with several by
    each: a folder that was made anew as a whole is refused.
    """
    paths = [key] if isinstance(key, (str, Path)) else key or ()
    keys = [read_public_key(Path(path).expanduser()) for path in paths]
    # A key that is named twice has one signature of it.
    trusted = {key.public_bytes_raw(): key for key in keys}
    folder = run_folder.find(run).path
    verification = _with_signatures(folder, verify(folder), list(trusted.values()))
    if verification.is_verified:
        return verification
    total = len(verification.checks)
    problem = CheckFailedError(
        f"run {verification.run} is not verified: {len(verification.failures)} of {total:,} "
        f"check{'' if total == 1 else 's'} failed"
    )
    return replace(verification, problem=problem)


def verify(folder: Path) -> Verification:
    """Check a run folder; damage is reported check by check, never raised."""
    files = RunFiles(folder)
    reading = journals.read(folder)
    checks = [Check("journal", reading.is_intact, reading.status())]
    if problem := own_problem(folder, reading):
        checks.append(Check(SIGNED, False, problem))
    if reading.of("replica"):
        checks += [Check(*checked) for checked in fleet.checks(RunFolder(folder), reading)]
        return Verification(folder.name, tuple(checks), {"records": len(reading.records)})
    record = reading.last("report")
    if record is None:
        if not any(files.has(name) for name in (REPORT_DATA, REPORT_TEXT, REPORT_PAGE)):
            raise InputError(
                f"run {folder.name}: expected a report, got none",
                "a run writes its report at its end",
            )
        checks.append(Check("journal", False, "expected a report record, got none"))
        return Verification(folder.name, tuple(checks))
    later = [following for following in reading.records if following.number > record.number]
    hashed = list(_files(files, record.data, later))
    files.untrusted = {check.name for check in hashed if not check.passed}
    checks += hashed
    try:
        claims, provenance = from_data(read_json("report", files.path(REPORT_DATA)))
    except AssayError as error:
        return Verification(folder.name, (*checks, Check(REPORT_DATA, False, error.message)))
    checks += _chain(record, reading, provenance)
    checks += _configuration(reading, record, provenance)
    checks += _rows(files)
    threshold = provenance.details.get("threshold")
    checks += [_checked(files, claim, threshold) for claim in claims]
    checks += _texts(files, claims, provenance)
    extent = {
        "claims": len(claims),
        "rows": sum(row["kind"] == "block" for row in files.journal),
        "files": len(record.data.get("files", {})),
        "journal records": len(reading.records),
    }
    notes = tuple(_notes(files, provenance, record.data, later))
    return Verification(folder.name, tuple(checks), extent, notes=notes)


def _with_signatures(folder: Path, verification: Verification, keys: Sequence[Any]) -> Verification:
    """The verification with a check of each key; without any, a note that somebody has signed.

    A report.sig that is not one has failed already.
    """
    if any(check.name == SIGNED for check in verification.checks):
        return verification
    if not keys:
        if not (folder / SIGNATURE).is_file():
            return verification
        notes = (*verification.notes, "signed; --key PUBLIC says whether by whom you trust")
        return replace(verification, notes=notes)
    reading = journals.read(folder)
    checks, notes = list(verification.checks), tuple(verification.notes)
    for key in keys:
        problem, covered = signature_problem(folder, reading, key)
        name = fingerprint_of(key.public_bytes_raw())
        checks.append(Check(SIGNED, not problem, problem or f"by key {name}"))
        if not problem and covered < len(reading.records):
            later = count(len(reading.records) - covered, "record")
            notes += (f"{later} of the journal came after the signature of key {name}",)
    held = sum(check.passed for check in checks[len(verification.checks) :])
    extent = {**verification.extent, "signature" if held == 1 else "signatures": held}
    return replace(verification, checks=tuple(checks), extent=extent, notes=notes)


def _files(files: RunFiles, data: Mapping[str, Any], later: list[Any]) -> Iterator[Check]:
    """SHA-256 of every file beside the one in the journal."""
    undone = any(record.kind in ("reverted", "recovered") for record in later)
    for name, expected in sorted(data.get("files", {}).items()):
        if not files.has(name):
            gone = name == MAY_BE_GONE
            yield Check(name, gone, "given up on a full disk" if gone else "the file is missing")
            continue
        digest = files.digest(name)
        if digest == expected:
            yield Check(name, True, f"SHA-256 {digest[:16]}")
        elif name == MAY_CHANGE and undone:
            yield Check(name, True, "changed by a rollback after the report; see the journal")
        else:
            yield Check(name, False, f"SHA-256: expected {expected[:16]}.., got {digest[:16]}..")


def _chain(record: Any, reading: Any, provenance: Provenance) -> Iterator[Check]:
    """The report names the chain's head when it was written: the record before its own."""
    before = reading.records[record.number - 1].hash if record.number else ""
    same = before == provenance.journal_head
    yield Check(
        "journal head",
        same,
        f"{provenance.journal_head[:16]} is record {record.number - 1}"
        if same
        else f"expected {before[:16]}.., got {provenance.journal_head[:16]}..",
    )


def _configuration(reading: Any, record: Any, provenance: Provenance) -> Iterator[Check]:
    """The settings that the report ends with are those that the engine last read back."""
    settings = provenance.details.get("settings")
    hashes = [
        earlier.data["hash"]
        for earlier in reading.records[: record.number]
        if earlier.kind in ("safe", "applied", "reverted") and earlier.data.get("hash")
    ]
    if settings is None or not hashes:
        return
    same = configuration_hash(settings) == hashes[-1]
    words = "is" if same else "is not"
    yield Check(
        "configuration", same, f"the report's {words} the one that the engine last read back"
    )


def _rows(files: RunFiles) -> Iterator[Check]:
    """Every row of experiments.parquet is a block of the journal, and the other way around."""
    recorded = [
        canonical(plain(record["data"])) for record in files.journal if record["kind"] == "block"
    ]
    if not recorded and not files.has(EXPERIMENTS):
        return
    try:
        stored = [canonical(plain(row)) for row in files.blocks]
    except AssayError as error:
        yield Check(EXPERIMENTS, False, error.message)
        return
    same = sorted(recorded) == sorted(stored)
    yield Check(
        f"{EXPERIMENTS} rows",
        same,
        f"{len(stored):,} rows, each a block of the journal"
        if same
        else f"{len(stored):,} rows are not the {len(recorded):,} blocks of the journal",
    )


def _checked(files: RunFiles, claim: Claim, threshold: Any) -> Check:
    """A claim: its figure from its rows, its statement from its figure, its verdict from both."""
    try:
        problem = _problem(files, claim, float(threshold or 0.0))
    except Exception as error:
        # A report is input: whatever is wrong with it is a check that failed, said in a line.
        problem = f"cannot be derived: {type(error).__name__}: {error}"
    return Check(str(claim.name), not problem, problem or claim.statement)


def _problem(files: RunFiles, claim: Claim, threshold: float) -> str:
    """What is wrong with a claim; empty where it holds."""
    derived = _derived(files, claim)
    if claim.figure is not None and (derived is None or not _equal(derived, claim.figure)):
        return f"claimed {claim.figure}, the rows give {derived}"
    text = str(claim.details.get("text", ""))
    if stated(text, claim.figure, claim.unit) != claim.statement:
        return f"the statement is not that of its figure: {claim.statement}"
    if loose := unexplained(text.replace(FIGURE, ""), claim):
        return f"a number that no row gives: {', '.join(loose)}"
    return changes_problem(files, claim) or verdict_problem(files, claim, threshold)


def _derived(files: RunFiles, claim: Claim) -> Interval | None:
    rules = [proof for proof in claim.evidence if proof.rule != "verdict"]
    figures = [derivations.derive(files, rule) for rule in rules]
    if not claim.evidence:
        raise InputError("no evidence is named")
    if any(not _equal(figure, figures[0]) for figure in figures[1:]):
        raise InputError("its evidence disagrees")
    return figures[0] if figures else None


def _equal(first: Interval, second: Interval) -> bool:
    return all(
        value == other or math.isclose(value, other, rel_tol=TOLERANCE)
        for value, other in zip(first, second, strict=True)
    )


def _texts(files: RunFiles, claims: list[Claim], provenance: Provenance) -> Iterator[Check]:
    """Text and page written again; other code may word and draw them differently."""
    if not _is_same_writer(provenance):
        return
    for name in (REPORT_TEXT, REPORT_PAGE):
        try:
            is_page = name == REPORT_PAGE
            text = render(claims, provenance, files) if is_page else write(claims, provenance)
            same = files.path(name).read_bytes() == text.encode()
        except Exception as error:
            yield Check(f"{name} text", False, f"cannot be written again: {error}")
            continue
        words = "written again from the claims: equal" if same else "differs from the claims"
        yield Check(f"{name} text", same, words)


def _is_same_writer(provenance: Provenance) -> bool:
    return provenance.details.get("writer") == writer_digest()


def _notes(
    files: RunFiles, provenance: Provenance, data: Mapping[str, Any], later: list[Any]
) -> Iterator[str]:
    if not _is_same_writer(provenance):
        yield "written by another build of Assay: text and page are checked by their hashes only"
    covered = {*data.get("files", {}), JOURNAL, "journal.head"}
    extra = [name for name in files.evidence_files() if name not in covered]
    if extra:
        yield f"not covered by the report: {', '.join(extra[:8])}"
    for record in later:
        if record.kind == "redacted":
            originals = count(len(record.data.get("files", ())), "original file")
            yield f"names and prompts were taken out; the journal has the SHA-256 of {originals}"
    kinds = [record.kind for record in later if record.kind not in ("finished", "redacted")]
    if kinds:
        yield f"the journal goes on after the report: {', '.join(kinds[:8])}"
