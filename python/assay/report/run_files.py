"""The files of a run folder, read as data: the only input of the rules that re-derive claims."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.files import read_json
from assay.improve.journal import journal as journals
from assay.lazy_import import pl
from assay.parquet import read_table

JOURNAL: Final = "journal.jsonl"
HEAD: Final = "journal.head"
EXPERIMENTS: Final = "experiments.parquet"
RESIDUALS: Final = "residuals.parquet"
STATE: Final = "state.parquet"
PLAN: Final = "plan.json"
LOG: Final = ".log"
REPORT_DATA: Final = "report.json"
REPORT_TEXT: Final = "report.md"
REPORT_PAGE: Final = "report.html"
SIGNATURE: Final = "report.sig"
REPORTS: Final = (REPORT_DATA, REPORT_TEXT, REPORT_PAGE)

Row = Mapping[str, Any]


class RunFiles:
    """A run folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"run {folder}: expected a run folder, got nothing there")
        self.folder = folder
        self.untrusted: set[str] = set()
        """Files that are not those that were written: nothing is derived from them."""

    @cached_property
    def blocks(self) -> Sequence[Row]:
        """Rows of experiments.parquet in their order; settings and figures as mappings."""
        rows = self.table(EXPERIMENTS).to_dicts()
        for row in rows:
            for name in ("settings", "figures"):
                if isinstance(row.get(name), str):
                    row[name] = json.loads(row[name])
        return rows

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Rows of residuals.parquet: one a step, a column for each term of the waterfall."""
        return self.table(RESIDUALS)

    @cached_property
    def state(self) -> pl.DataFrame:
        """Samples of telemetry."""
        return self.table(STATE)

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        """plan.json: objective, prediction, candidates, skipped levers."""
        stored = read_json("plan", self.trusted(PLAN))
        if not isinstance(stored, dict):
            raise InputError(f"plan {self.path(PLAN)}: expected an object, got {type(stored)}")
        return stored

    @cached_property
    def journal(self) -> Sequence[Row]:
        """Records of the journal in order, up to the first that breaks the chain."""
        return [
            {"kind": record.kind, "data": record.data}
            for record in journals.read(self.folder).records
        ]

    def has(self, name: str) -> bool:
        """Whether the folder has this file."""
        return self.path(name).is_file()

    def table(self, name: str) -> pl.DataFrame:
        """A Parquet file of the folder."""
        return read_table(self.trusted(name))

    def trusted(self, name: str) -> Path:
        """A file that exists and is the one that was written."""
        path = self.path(name)
        if not path.is_file():
            raise InputError(f"run {self.folder.name}: expected {name}, got no such file")
        if name in self.untrusted:
            raise InputError(f"{name} is not the file that the report rests on")
        return path

    def path(self, name: str) -> Path:
        """A file of the folder; names that lead out of it are refused."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise InputError(f"run {self.folder.name}: expected a file inside it, got {name!r}")
        return path

    def digest(self, name: str) -> str:
        """SHA-256 of a file."""
        return sha256(self.path(name))

    def evidence_files(self) -> dict[str, str]:
        """SHA-256 of every file that claims may rest on: all but the journal and the report.

        The journal is a chain of hashes already; files whose names begin with a dot are locks and
        unfinished writes; logs belong to servers and a watchdog that may outlive the report.
        """
        hashes = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            hidden = any(part.startswith(".") for part in Path(name).parts)
            left_out = hidden or path.suffix == LOG or name in (JOURNAL, HEAD, SIGNATURE, *REPORTS)
            if path.is_file() and not left_out:
                hashes[name] = sha256(path)
        return hashes


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def selected(rows: Sequence[Row], select: Mapping[str, Any]) -> list[Row]:
    """Rows in which every column has the value that is asked for."""
    return [row for row in rows if all(row.get(name) == value for name, value in select.items())]
