"""`assay trace list`, `import` and `export`: traces as files."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, size, table, working
from assay.observe import store
from assay.observe.exporters.formats import FORMATS


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


def trace_export_command(
    trace: options.TraceArgument,
    out: Annotated[str, option("--out -o PATH", "The file to write.", show_default=False)],
    form: Annotated[
        str, option("--format", "The format to write.", metavar="|".join(FORMATS))
    ] = next(iter(FORMATS)),
    force: Annotated[bool, option("--force", "Overwrite the file.")] = False,
    as_json: options.Json = False,
) -> Report:
    """Write a trace for another tool: Perfetto, Chrome JSON, Chakra, JSON lines or CSV.

    Every format holds the whole trace: what a format has no field for is an attribute of the
    event, and assay trace import reads it back without a loss.
    """
    from assay.observe.exporters.exporting import export_trace

    with working(f"reading {trace}") as progress:
        exported = export_trace(trace, out, form, force=force, progress=progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        events, steps = count(exported.events, "event"), count(exported.steps, "step")
        yield ((out, styles.VALUE), f": {events}, {steps}, {size(exported.bytes)}")

    return report_of(exported, text, as_json)
