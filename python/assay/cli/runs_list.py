"""`assay runs list`: the stored runs."""

from collections.abc import Iterator

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Part, Report, report_of, table
from assay.cli.runs_text import figure, when
from assay.runs.stored import list_runs


def runs_list_command(as_json: options.Json = False) -> Report:
    """List the stored runs of assay run, the latest first.

    Runs are stored in the folder runs of the scratch folder (assay cache names it). A run is
    under way, finished, interrupted (assay run --resume goes on with it, assay rollback ends it),
    rolled back, or damaged: its journal was edited.
    """
    stored = list_runs()
    rows = stored.runs

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"{stored.path}: {len(rows)} stored" if rows else "no stored runs"
        if not rows:
            yield "assay run makes one"
            return
        yield ""
        cells: list[tuple[Part, ...]] = [
            (
                (row["run"], styles.NAME),
                when(row["started_at"]),
                row["status"],
                row["verdict"] or ("-", styles.FAINT),
                figure(row["ratio"], "x"),
                ", ".join(row["kept"]) or ("-", styles.FAINT),
            )
            for row in rows
        ]
        header = ("run", "started", "status", "verdict", "ratio", "kept")
        yield from table(header, cells, canvas)

    return report_of(stored, text, as_json)
