"""`assay rollback RUN`: undo what a run changed."""

from collections.abc import Iterator

from assay.cli import options
from assay.cli.output import Canvas, Line, Report, facts, report_of, show_note, working
from assay.cli.runs import Run
from assay.report.words import setting
from assay.runs.rollback import roll_back


def rollback_command(run: Run, as_json: options.Json = False) -> Report:
    """Restore the settings of before a run.

    The journal of the run holds the inverse of every change. A server is started again with the
    settings it had before the run; if it does not start, it is stopped and this command exits with
    5. One whose command cannot be started at all is left as it runs, with 5 as well. An engine
    inside another process ended with it: its stored configuration is set back. A run that is under
    way is refused: interrupt it, and it goes back by itself.
    """
    with working(f"rolling back {run}") as progress:
        done = roll_back(run, show_note, progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        yield done.statement
        if done.settings:
            yield ""
            rows = [(name, setting(value)) for name, value in done.settings.items()]
            yield from facts(rows, canvas)

    return report_of(done, text, as_json)
