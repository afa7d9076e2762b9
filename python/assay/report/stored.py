"""`assay report`: the report that a run wrote at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers import Answer
from assay.errors import CheckFailedError, InputError
from assay.files import read_json
from assay.improve.journal import journal as journals, run_folder
from assay.report.claim import Claim, Provenance
from assay.report.headline import headline
from assay.report.run import write_again
from assay.report.run_files import REPORT_DATA, REPORT_PAGE
from assay.report.signing import SIGN_ANEW, refuse_unverified, write_signature
from assay.report.storing import from_data, to_data
from assay.report.verify import SIGNED, verify


@dataclass(frozen=True)
class StoredReport(Answer):
    """The claims of a run and where they come from."""

    folder: Path
    claims: list[Claim]
    provenance: Provenance

    @property
    def page(self) -> Path:
        """The report as one page."""
        return self.folder / REPORT_PAGE

    def headline(self) -> str:
        """What the run came to."""
        return headline(self.claims, self.provenance)

    def _repr_html_(self) -> str:
        from assay.notebook import card

        claims = [
            {"claim": claim.name, "statement": claim.statement, "verdict": claim.verdict}
            for claim in self.claims
        ]
        data = {"page": str(self.page), "claims": claims}
        return card(f"report of run {self.folder.name}", self.headline(), data)

    def to_json(self) -> dict[str, Any]:
        """What report.json holds, and where it is."""
        where = {"run": str(self.folder), "report": str(self.page)}
        return {**where, **to_data(self.claims, self.provenance)}


def read_report(run: str) -> StoredReport:
    """The report of a run: its folder, its id or the start of it, or latest."""
    return _read(run_folder.find(run).path)


def rewrite_report(run: str) -> StoredReport:
    """Verify a report, and write it again in the words and pictures of this build."""
    report = read_report(run)
    if failures := verify(report.folder).failures:
        raise CheckFailedError(
            f"run {report.folder.name} is not verified and stays as it is: {failures[0].name}",
            "assay verify-report lists what failed",
        )
    write_again(report.folder, report.claims, report.provenance)
    return _read(report.folder)


def sign_report(run: str | Path, key: Any) -> str:
    """Verify a run and sign it with a key of `signing.read_private_key`; the name of the key.

    Signatures of other keys stay.
    """
    folder = run_folder.find(str(run)).path
    failures = verify(folder).failures
    if failures and all(check.name == SIGNED for check in failures):
        # It may have signatures of others, which only they can give again.
        raise InputError(failures[0].statement, SIGN_ANEW)
    refuse_unverified(folder.name, [check.name for check in failures])
    return write_signature(folder, journals.read(folder), key).fingerprint


def _read(folder: Path) -> StoredReport:
    path = folder / REPORT_DATA
    if not path.is_file():
        raise InputError(
            f"run {folder.name}: expected a report, got none", "a run writes its report at its end"
        )
    claims, provenance = from_data(read_json("report", path))
    return StoredReport(folder, claims, provenance)
