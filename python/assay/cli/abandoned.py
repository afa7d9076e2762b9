"""Runs whose controller and watchdog both died: their engines are brought to the safe state."""

from assay.cli.output import show_note, working
from assay.improve.journal import active
from assay.improve.journal import journal as journals
from assay.improve.journal.recovery import recover
from assay.improve.journal.watchdog import start_recovery


def end_abandoned(*, wait: bool) -> None:
    """End abandoned runs, in this process or, for commands that have other work, beside it."""
    for one in active.active_runs():
        if one.is_attended:
            continue
        if not (one.run.path / journals.NAME).is_file():
            # The run folder was deleted, and with it what could be restored.
            active.unmark(one.run)
        elif wait:
            with working(f"ending run {one.run.id}, which was cut short") as update:
                done = recover(
                    one.run, "the next command", "controller and watchdog died", progress=update
                )
            show_note(f"{done.sentence}; the run was cut short together with its watchdog")
        else:
            start_recovery(one.run)
            show_note(
                f"run {one.run.id} was cut short together with its watchdog: its engine is being "
                "brought back to the recorded configuration"
            )
