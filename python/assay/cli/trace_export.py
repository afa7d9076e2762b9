"""`assay trace export`: a trace in the format of another tool."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli import options
from assay.cli.output import VALUE, Canvas, Line, Report, count, size, working
from assay.errors import InputError, unknown_name
from assay.observe.exporters.formats import FORMATS


def trace_export_command(
    trace: options.TraceArgument,
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="PATH", help="The file to write.", show_default=False),
    ],
    form: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="The format to write.")
    ] = next(iter(FORMATS)),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: options.Json = False,
) -> Report:
    """Write a trace for another tool: Perfetto, Chrome JSON, Chakra, JSON lines or CSV.

    Every format holds the whole trace: what a format has no field for is an attribute of the
    event, and assay trace import reads it back without a loss.
    """
    from assay.observe.exporters import formats
    from assay.observe.importers.detect import open_trace
    from assay.observe.store import find

    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    path = Path(out)
    if path.exists() and (not force or not path.is_file()):
        raise InputError(
            f"{out}: exists already", "--force overwrites it" if path.is_file() else None
        )
    with working(f"reading {trace}") as say:
        opened = open_trace(find(trace), progress=say)
        formats.write(opened, path, form, progress=say)
    data: dict[str, Any] = {
        "trace": trace,
        "format": form,
        "path": out,
        "bytes": path.stat().st_size,
        "events": len(opened.events),
        "steps": len(opened.steps),
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        events, steps = count(data["events"], "event"), count(data["steps"], "step")
        yield ((out, VALUE), f": {events}, {steps}, {size(data['bytes'])}")

    return Report(data, text, as_json)
