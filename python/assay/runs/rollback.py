"""`assay rollback`: undo what a run changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.answers import Answer, Progress, silent
from assay.errors import AssayError, InputError
from assay.improve.journal import active, journal as journals, run_folder
from assay.improve.journal.journaled_engine import RollbackError
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import configuration_hash
from assay.runs.abandoned import end_abandoned


@dataclass(frozen=True)
class Rollback(Answer):
    """What was done to restore the settings of before a run."""

    run: str
    action: str
    statement: str
    settings: dict[str, Any] | None
    """The configuration that is in force, or that a start would have."""
    hash: str | None
    journal_intact: bool
    problems: list[str]


def roll_back(run: str, note: Progress = silent, progress: Progress = silent) -> Rollback:
    """Restore the settings of before a run, by the inverses that its journal holds.

    A server is started again with the settings it had; one that does not start is stopped, which
    is a problem. A run under way is refused. Runs that were cut short are ended first.
    """
    end_abandoned(note, progress)
    folder = run_folder.find(run)
    if any(other.run.id == folder.id and other.is_attended for other in active.active_runs()):
        raise InputError(
            f"run {folder.id} is under way: expected one that has ended",
            "interrupt it with Ctrl-C, and it restores the configuration itself",
        )
    done = recover(folder, "assay rollback", "asked for", to_start=True, progress=progress)
    intact = journals.read(folder.path).is_intact
    problem: AssayError | None = None
    if done.action == "stopped" and done.problems:
        problem = RollbackError(f"{done.sentence}: {done.problems[0]}")
    elif not intact:
        problem = RollbackError(f"journal of {folder.id} does not verify: {done.problems[0]}")
    settings = None if done.settings is None else dict(done.settings)
    return Rollback(
        run=folder.id,
        action=done.action,
        statement=done.sentence,
        settings=settings,
        hash=None if settings is None else configuration_hash(settings),
        journal_intact=intact,
        problems=list(done.problems),
        problem=problem,
        notes=() if problem else done.problems,
    )
