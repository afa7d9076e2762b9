"""Which files of a run's folder are the run's: what it wrote, not what somebody left there.

The report of a run names every file that its claims may rest on. A run without one is known by the
names that runs give their files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from assay.improve.journal.journal import RESERVE_NAME, JournalReading
from assay.improve.journal.run_folder import RunFolder
from assay.report.run_files import HEAD, JOURNAL, LOG, REPORTS, SIGNATURE

_FOLDER: Final = RunFolder(Path())
_NAMES: Final = {
    JOURNAL, HEAD, RESERVE_NAME, SIGNATURE, *REPORTS, "workload.jsonl", "calibration.json",
    _FOLDER.state.name, _FOLDER.plan.name, _FOLDER.residuals.name, _FOLDER.experiments.name,
    _FOLDER.degradations.name, _FOLDER.configuration.name,
}  # fmt: skip
"""Files that a run may write, also after its report."""
_FOLDERS: Final = (_FOLDER.trace.name, _FOLDER.logs.name, "telemetry")
"""Folders of a run; what servers and captures call their files there is theirs."""


def strays_of(files: Mapping[str, Path], reading: JournalReading) -> dict[str, Path]:
    """The files that are not of the run, by their names in its folder."""
    report = reading.last("report")
    named = report.data.get("files") if report is not None else None
    covered = named if isinstance(named, Mapping) else {}
    # Without a report nothing says what is in the folders of a run.
    return {
        name: path
        for name, path in files.items()
        if name not in covered and not _is_own(name, is_reported=bool(covered))
    }


def _is_own(name: str, *, is_reported: bool) -> bool:
    if name in _NAMES or PurePosixPath(name).suffix == LOG:
        return True
    top = PurePosixPath(name).parts[0]
    is_inside = top != name
    return not is_reported and is_inside and top.startswith(_FOLDERS)
