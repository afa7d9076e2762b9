"""`assay trace import`: stores a trace of another tool."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, count, report_of, size, table, working


def trace_import_command(
    files: Annotated[
        list[str],
        argument(
            "FILE...", "Trace files of any tool that assay reads; several are the ranks of one run."
        ),
    ],
    out: Annotated[
        str | None,
        option(
            "--out -o FOLDER",
            "Where to store it; else in the folder that assay trace list lists.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Store a trace of another tool: PyTorch's profiler (json, json.gz) and others.

    What the file says is kept, in columns or as args of its events. What had to be mended is
    counted and shown. Several files are stored as one trace, each with the rank it states.
    """
    from assay.observe.importers.storing import import_trace

    with working(f"reading {files[0]}") as progress:
        imported = import_trace(files, out, progress=progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        events = count(imported.events, "event")
        yield ((imported.path, styles.VALUE), f": {events}, {size(imported.bytes)}")
        yield ""
        rows = [
            ((kind, styles.NAME), f"{sums['count']:,}", f"{sums['ns'] / 1e6:,.3f} ms")
            for kind, sums in imported.kinds.items()
        ]
        yield from table(("kind", "events", "time"), rows, canvas, right=(1, 2))
        for what, times in imported.repairs.items():
            yield f"mended: {what} ({times:,})"

    return report_of(imported, text, as_json)
