"""`assay trace summary`: steps and operations of a trace, and what is not mapped."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import (
    Canvas,
    Line,
    Part,
    Report,
    count,
    cut,
    cut_notes,
    facts,
    report_of,
    table,
    working,
)
from assay.escaping import clipped

if TYPE_CHECKING:
    from assay.observe.structure.summary import Rows, TraceSummary

Model = Annotated[
    str | None,
    option(
        "--model MODEL",
        "The model that ran: a config.json, its folder, a GGUF file, or a name of the "
        "catalog such as models/llama-3.1-8b. Without it, names and order alone count.",
    ),
]
NAME_WIDTH = 60
"""Columns of a kernel's name: templates have thousands of characters."""


def trace_summary_command(
    trace: options.TraceArgument,
    model: Model = None,
    capture: Annotated[
        str | None,
        option(
            "--capture TRACE",
            "A trace of the capture of the graphs, if it is another file: its CPU "
            "operations name the kernels of replays.",
        ),
    ] = None,
    out: Annotated[
        str | None, option("--out -o FOLDER", "Store the trace with what was found.")
    ] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Find steps, phases, layers and operations, and sum the device's time.

    Steps are found by the repetition of layers, operations by order, durations, shapes and
    classes of names. A trace whose events carry operations keeps them. What is not mapped is
    listed by time.
    """
    from assay.observe.structure.summary import summarize_trace

    with working(f"reading {trace}") as progress:
        summary = summarize_trace(trace, model, capture=capture, out=out, progress=progress)
    limit_rows = options.MAX_LISTED if limit is None else limit
    hidden = cut(limit_rows, operations=summary.operations, unmapped=summary.unmapped)
    return report_of(
        summary,
        lambda canvas: _text(summary, canvas, limit_rows or len(summary.unmapped) + 100),
        as_json,
        text_notes=cut_notes(hidden),
    )


def milliseconds(nanoseconds: float) -> str:
    """A duration for a table."""
    return f"{nanoseconds / 1e6:,.3f}"


def _text(summary: "TraceSummary", canvas: Canvas, limit: int) -> Iterator[Line]:
    yield from facts(
        (
            ("trace", summary.trace),
            ("model", summary.model or ""),
            (
                "device",
                f"{milliseconds(summary.device_ns)} ms in {count(summary.kernels, 'kernel')} and "
                f"{count(summary.copies, 'copy', 'copies')}",
            ),
            ("mapped", _mapped(summary)),
            ("annotations", _agreement(summary.annotations)),
            ("captures", _captures(summary.captures)),
        ),
        canvas,
    )
    yield ""
    yield from _phases(summary.steps, canvas)
    if rows := summary.operations[:limit]:
        yield ""
        cells: list[tuple[Part, ...]] = [
            (
                (row["name"], styles.NAME),
                str(row["layers"]) if row["layers"] else ("", styles.FAINT),
                f"{row['count']:,}",
                (milliseconds(row["ns"]), styles.VALUE),
                f"{100 * row['share']:.2f}",
            )
            for row in rows
        ]
        titles = ("operation", "layers", "count", "total ms", "%")
        yield from table(titles, cells, canvas, right=(1, 2, 3, 4))
    if summary.collectives:
        yield ""
        yield from _collectives(summary.collectives, canvas)
    if rows := summary.unmapped[:limit]:
        yield ""
        cells = [
            (
                clipped(row["name"], NAME_WIDTH),
                f"{row['count']:,}",
                (milliseconds(row["ns"]), styles.VALUE),
            )
            for row in rows
        ]
        title = "own operation" if _has_own_names(summary) else "not mapped"
        yield from table((title, "count", "total ms"), cells, canvas, right=(1, 2))


def _has_own_names(summary: "TraceSummary") -> bool:
    return not summary.mapped_share and summary.named_share > 0.0


def _mapped(summary: "TraceSummary") -> str:
    if _has_own_names(summary):
        return (
            f"no operation of a language model ran; {100 * summary.named_share:.2f} % of device time has "
            "names that the program gave"
        )
    return f"{100 * summary.mapped_share:.2f} % of device time"


def _phases(steps: "Rows", canvas: Canvas) -> Iterator[Line]:
    if not steps:
        yield "no steps found"
        return
    cells: list[tuple[Part, ...]] = []
    for phase in ("prefill", "decode", "mixed", None):
        members = [step for step in steps if step["phase"] == phase]
        if not members:
            continue
        batches = sorted({step["batch"] for step in members if step["batch"]})
        shown = "" if not batches else str(batches[0])
        if len(batches) > 1:
            shown += f"-{batches[-1]}"
        cells.append(
            (
                (phase or "unknown", styles.NAME),
                str(len(members)),
                shown,
                (milliseconds(median(step["dur_ns"] for step in members)), styles.VALUE),
                milliseconds(median(step["device_ns"] for step in members)),
            )
        )
    titles = ("phase", "steps", "batch", "median ms", "median device ms")
    yield from table(titles, cells, canvas, right=(1, 2, 3, 4))


def _collectives(rows: "Rows", canvas: Canvas) -> Iterator[Line]:
    cells: list[tuple[Part, ...]] = [
        (
            (row["name"], styles.NAME),
            "" if row["rank"] is None else str(row["rank"]),
            f"{row['count']:,}",
            (milliseconds(row["waiting_ns"]), styles.VALUE),
            (milliseconds(row["transfer_ns"]), styles.VALUE),
        )
        for row in rows
    ]
    titles = ("collective", "rank", "count", "waiting ms", "transfer ms")
    yield from table(titles, cells, canvas, right=(1, 2, 3, 4))


def _captures(captures: Mapping[str, int] | None) -> str:
    if captures is None:
        return ""
    return (
        f"{captures['agreeing']:,} of {captures['kernels']:,} replayed kernels agree with their callers "
        "at capture"
    )


def _agreement(agreement: Mapping[str, Any] | None) -> str:
    if agreement is None:
        return ""
    return (
        f"{agreement['in_range']} of {agreement['steps']} steps in an annotated range, "
        f"{agreement['same_phase']} with the recovered phase"
    )
