"""`assay trace export`: a trace in the format of another tool."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Report, count, report_of, size, working
from assay.observe.exporters.formats import FORMATS


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
