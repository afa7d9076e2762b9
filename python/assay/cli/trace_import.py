"""`assay trace import`: stores a trace of another tool."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli import options
from assay.cli.output import NAME, VALUE, Canvas, Line, Report, count, size, table, working


def trace_import_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Trace files of any tool that assay reads; several are the ranks of one run.",
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Where to store it; else in the folder that assay trace list lists.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Store a trace of another tool: PyTorch's profiler (json, json.gz) and others.

    What the file says is kept, in columns or as args of its events. What had to be mended is
    counted and shown. Several files are stored as one trace, each with the rank it states.
    """
    from assay.observe import store
    from assay.observe.importers.storing import store_files

    folder = Path(out) if out else store.new_path(_label(files))
    with working(f"reading {files[0]}") as say:
        stored = store_files([Path(file) for file in files], folder, progress=say)
    header, sums = stored.header, stored.sums
    data: dict[str, Any] = {
        "files": files,
        "path": str(folder),
        "name": folder.name,
        "bytes": sum(one.stat().st_size for one in folder.iterdir()),
        "source": header.source,
        "clock": header.clock,
        "events": sum(events for events, _ in sums.values()),
        "kinds": {kind: {"count": events, "ns": ns} for kind, (events, ns) in sums.items()},
        "repairs": header.repairs,
        "degradations": header.degradations,
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        events = count(data["events"], "event")
        yield ((str(folder), VALUE), f": {events}, {size(data['bytes'])}")
        yield ""
        rows = [((kind, NAME), f"{n:,}", f"{ns / 1e6:,.3f} ms") for kind, (n, ns) in sums.items()]
        yield from table(("kind", "events", "time"), rows, canvas, right=(1, 2))
        for what, times in header.repairs.items():
            yield f"mended: {what} ({times:,})"

    return Report(data, text, as_json, notes=header.degradations)


def _label(files: list[str]) -> str:
    """A name for the trace, of letters that are safe in a path."""
    stem = Path(files[0]).name.split(".")[0]
    safe = "".join(one if one.isalnum() or one in "-_" else "-" for one in stem)
    return safe.strip("-") or "trace"
