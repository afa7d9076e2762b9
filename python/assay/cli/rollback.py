"""`assay rollback RUN`: undo what a run changed."""

from collections.abc import Iterator

from assay.cli import options
from assay.cli.output import Canvas, Line, Report, facts, working
from assay.cli.runs_text import Run, setting
from assay.errors import InputError
from assay.improve.journal import active, run_folder
from assay.improve.journal import journal as journals
from assay.improve.journal.journaled_engine import RollbackError
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import configuration_hash


def rollback_command(run: Run, as_json: options.Json = False) -> Report:
    """Restore the settings of before a run.

    The journal of the run holds the inverse of every change. A server is started again with the
    settings it had before the run; if it does not start, it is stopped and this command exits with
    5. An engine inside another process ended with it: its stored configuration is set back. A run
    that is under way is refused: interrupt it, and it goes back by itself.
    """
    folder = run_folder.find(run)
    for one in active.active_runs():
        if one.run.id == folder.id and one.is_attended:
            raise InputError(
                f"run {folder.id} is under way: expected one that has ended",
                "interrupt it with Ctrl-C, and it restores the configuration itself",
            )
    with working(f"rolling back {folder.id}") as update:
        done = recover(folder, "assay rollback", "asked for", to_start=True, progress=update)
    intact = journals.read(folder.path).is_intact
    problem = None
    if done.action == "stopped" and done.problems:
        problem = RollbackError(f"{done.sentence}: {done.problems[0]}")
    elif not intact:
        problem = RollbackError(f"journal of {folder.id} does not verify: {done.problems[0]}")
    settings = None if done.settings is None else dict(done.settings)
    data = {
        "run": folder.id,
        "action": done.action,
        "statement": done.sentence,
        "settings": settings,
        "hash": None if settings is None else configuration_hash(settings),
        "journal_intact": intact,
        "problems": list(done.problems),
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        yield done.sentence
        if settings:
            yield ""
            yield from facts([(name, setting(value)) for name, value in settings.items()], canvas)

    notes = [] if problem else list(done.problems)
    return Report(data, text, as_json, problem, notes)
