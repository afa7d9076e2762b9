"""Runs whose controller and watchdog both died: their engines are brought to the safe state."""

from __future__ import annotations

from assay.answers import Progress, silent
from assay.improve.journal import active, journal as journals
from assay.improve.journal.active import ActiveRun
from assay.improve.journal.recovery import recover
from assay.improve.journal.watchdog import start_recovery


def end_abandoned(note: Progress, say: Progress = silent) -> None:
    """End abandoned runs in this process, before something else changes their engines."""
    for abandoned in _abandoned():
        say(f"ending run {abandoned.run.id}, which was cut short")
        done = recover(
            abandoned.run, "the next command", "controller and watchdog died", progress=say
        )
        note(f"{done.sentence}; the run was cut short together with its watchdog")


def start_ending_abandoned(note: Progress) -> None:
    """End abandoned runs in processes of their own, beside other work."""
    for abandoned in _abandoned():
        start_recovery(abandoned.run)
        note(
            f"run {abandoned.run.id} was cut short together with its watchdog: its engine is being "
            "brought back to the recorded configuration"
        )


def _abandoned() -> list[ActiveRun]:
    left = []
    for active_run in active.active_runs():
        if active_run.is_attended:
            continue
        if (active_run.run.path / journals.NAME).is_file():
            left.append(active_run)
        else:
            # The run folder was deleted, and with it what could be restored.
            active.unmark(active_run.run)
    return left
