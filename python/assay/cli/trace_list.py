"""`assay trace list`: the stored traces."""

from collections.abc import Iterator

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Part, Report, report_of, size, table
from assay.observe import store


def trace_list_command(as_json: options.Json = False) -> Report:
    """List the stored traces, the latest first.

    Traces are stored in the folder traces of the scratch folder (assay cache names it) unless
    a command is given another place.
    """
    listed = store.list_traces()
    rows = listed.traces

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"{listed.path}: {len(rows)} stored" if rows else "no stored traces"
        if not rows:
            yield "assay trace import FILE stores a trace of another tool"
            return
        yield ""
        cells: list[tuple[Part, ...]] = [
            (
                (row["name"], styles.NAME),
                row["source"] if row["readable"] else "cannot be read",
                row["model"] or ("unknown", styles.FAINT),
                size(row["bytes"]),
                row["modified"],
            )
            for row in rows
        ]
        yield from table(("name", "source", "model", "size", "stored"), cells, canvas, right=(3,))

    return report_of(listed, text, as_json)
