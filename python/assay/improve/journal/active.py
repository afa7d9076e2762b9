"""Markers of runs under way, so that the next command finds runs whose processes all died.

`runs/active` exists only while there are such runs: every command looks for it, with one stat.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import InputError
from assay.files import read_json
from assay.improve.engines.process import ServerRecord, identify, is_alive, is_running, wait_until
from assay.improve.journal.run_folder import ACTIVE_NAME, RunFolder, runs_folder, write_synced

_STARTED_S: Final = 2.0
"""How long a process may take until its command line can be read."""


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that has not ended cleanly, and the processes that look after it."""

    run: RunFolder
    controller: ServerRecord | None
    watchdog: ServerRecord | None

    @property
    def is_attended(self) -> bool:
        """Whether the controller or the watchdog still lives."""
        return any(
            process is not None and is_running(process)
            for process in (self.controller, self.watchdog)
        )


def mark(run: RunFolder, controller: int, watchdog: int | None) -> None:
    """Mark a run as under way, before the first change."""
    data = {
        "run": str(run.path),
        "controller": _identity(controller),
        "watchdog": None if watchdog is None else _identity(watchdog),
    }
    write_synced(_marker(run), json.dumps(data).encode(), "marker")


def unmark(run: RunFolder) -> None:
    """The run has ended, or the safe state was restored."""
    _marker(run).unlink(missing_ok=True)
    # A process that died while it wrote the marker left a part of it.
    for part in _folder().glob(f".{run.id}.json.*"):
        part.unlink(missing_ok=True)
    with suppress(OSError):
        # Fails while other runs are under way.
        _folder().rmdir()


def active_runs() -> list[ActiveRun]:
    """The runs that are marked as under way."""
    if not _folder().is_dir():
        return []
    runs = []
    for path in sorted(_folder().glob("*.json")):
        try:
            data = read_json("marker of a run", path)
            run = RunFolder(Path(data["run"]))
            active_run = ActiveRun(run, _record(data["controller"]), _record(data["watchdog"]))
        except (InputError, KeyError, TypeError):
            # Markers are written whole: this is none of ours, or its run was deleted meanwhile.
            continue
        runs.append(active_run)
    return runs


def _identity(pid: int) -> dict[str, Any] | None:
    # A process that was started just now has no command line for a moment.
    wait_until(lambda: not is_alive(pid) or identify(pid) is not None, _STARTED_S)
    process = identify(pid)
    return None if process is None else process.to_data()


def _record(data: Mapping[str, Any] | None) -> ServerRecord | None:
    return None if data is None else ServerRecord.from_data(data)


def _folder() -> Path:
    return runs_folder() / ACTIVE_NAME


def _marker(run: RunFolder) -> Path:
    return _folder() / f"{run.id}.json"


def exists() -> bool:
    """Whether any run is marked: one stat."""
    return os.path.exists(f"{paths.scratch()}/runs/{ACTIVE_NAME}")
