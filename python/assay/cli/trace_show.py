"""`assay trace show`: the timeline of a trace, in the terminal or as a page."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import (
    Canvas,
    Line,
    Part,
    Report,
    count,
    cut_notes,
    is_colorful,
    report_of,
    size,
    table,
    working,
)
from assay.cli.trace_summary import Model
from assay.errors import InputError, unknown_name
from assay.escaping import clipped

if TYPE_CHECKING:
    from assay.observe.timeline.showing import TimelinePage
    from assay.observe.timeline.terminal import Style
    from assay.observe.timeline.usage import Sum
    from assay.observe.timeline.view import TimelineView

LANES: Final = 16
ROWS: Final = 10
"""Lanes, operations and kernels that are printed unless `--limit` says otherwise."""
WIDEST: Final = 200
HEADINGS: Final = ("", "time", "share", "count")
TITLES: Final = {"op": "operation", "kernel": "kernel", "phase": "phase"}


def trace_show_command(
    trace: options.TraceArgument,
    step: Annotated[int | None, option("--step N", "Show this step only.")] = None,
    since: Annotated[
        str | None, option("--from TIME", "Show from this time on, such as 12.5ms.")
    ] = None,
    until: Annotated[str | None, option("--to TIME", "Show until this time.")] = None,
    by: Annotated[
        str | None,
        option(
            "--by op|kernel|phase",
            "What spans are colored and summed by; by operation if the trace has any.",
        ),
    ] = None,
    width: Annotated[
        int | None, option("--width N", "Columns of text; the terminal's if not given.")
    ] = None,
    limit: Annotated[
        int | None,
        option(
            "--limit N",
            f"Lanes, operations and kernels at most; 0 for all. Text has {LANES} lanes and "
            f"{ROWS} rows if not given, JSON all.",
        ),
    ] = None,
    model: Model = None,
    html: Annotated[
        Path | None,
        option(
            "--html FILE",
            "Write a page instead: one file with zoom, search and details, for any browser.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Draw the timeline of a trace.

    Times count from the trace's first event. Each lane is a stream of a device or a thread; how
    full a column is shows how busy the lane is, its color the operation that takes most of it.
    Without color, letters name the operations, capitals where the lane is busy half the time.
    Steps and operations of a trace of another tool are found as by assay trace summary.
    """
    from assay.observe.timeline import showing
    from assay.observe.timeline.terminal import chart_columns
    from assay.observe.timeline.usage import BY
    from assay.observe.timeline.view import degradations

    if by is not None and by not in BY:
        raise unknown_name("label", by, BY)
    if limit is not None and limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    if width is not None and not 40 <= width <= 1000:
        raise InputError(f"width: expected 40 to 1000 columns, got {width}")
    columns = width or max(60, min(shutil.get_terminal_size().columns, WIDEST))
    with working(f"reading {trace}") as progress:
        if html is not None:
            page = showing.write_timeline(
                trace, html, model, step=step, since=since, until=until, progress=progress
            )
            return report_of(page, lambda canvas: _page_text(page), as_json)
        shown = showing.show_trace(
            trace, model, step=step, since=since, until=until, by=by,
            columns=chart_columns(columns), limit=limit, progress=progress,
        )  # fmt: skip
    notes = degradations(shown.trace, shown.drawn)
    hidden = _hidden(shown, limit)
    if by is None and shown.by == "kernel":
        notes.append("no event has an operation: spans are colored by kernel")
    return report_of(
        shown,
        lambda canvas: _text(trace, shown, canvas, columns, limit, hidden),
        as_json,
        text_notes=(*notes, *cut_notes(hidden)),
    )


def _page_text(page: "TimelinePage") -> Iterator[Line]:
    yield f"{page.path}: {count(page.events, 'event')}, {size(page.bytes)}"
    yield f"open {page.address}"


def _hidden(shown: "TimelineView", limit: int | None) -> str | None:
    """What the limit leaves out, in words."""
    lists = (
        ("lanes", len(shown.lanes), LANES if limit is None else limit),
        (f"{TITLES[shown.by]}s", len(shown.sums), ROWS if limit is None else limit),
        ("kernels", len(shown.kernels), ROWS if limit is None else limit),
    )[: 2 if shown.by == "kernel" else 3]
    left_out = [f"{most:,} of {have:,} {noun}" for noun, have, most in lists if 0 < most < have]
    return f"{', '.join(left_out)}; --limit 0 lists all" if left_out else None


def _text(
    name: str,
    shown: "TimelineView",
    canvas: Canvas,
    columns: int,
    limit: int | None,
    hidden: str | None,
) -> Iterator[Line]:
    from assay.observe.timeline.durations import duration
    from assay.observe.timeline.terminal import Style, chart, host_keys, legend_keys

    window, drawn = shown.window, shown.drawn
    header = shown.trace.header
    about = [header.source, header.model or "", count(drawn.events.height, "event")]
    about.append(duration(drawn.end_ns - drawn.origin_ns))
    words = clipped(", ".join(filter(None, about)), columns - 2 - min(len(name), 24))
    yield ((clipped(name, columns - 2 - len(words)), styles.NAME), f"  {words}")
    yield (
        f"{window.title}: {duration(window.dur_ns)} from "
        f"{duration(window.from_ns - drawn.origin_ns)}"
    )
    yield ""
    style = Style(columns, canvas.is_unicode, is_colorful(sys.stdout))
    yield from chart(shown, style, LANES if limit is None else limit)
    if not shown.lanes:
        yield "nothing ran in this window"
        return
    keys = legend_keys(shown)
    yield from host_keys(shown, style, keys)
    yield ""
    if not shown.sums:
        yield "nothing ran on a device in this window"
    most = ROWS if limit is None else limit
    yield from _sums(TITLES[shown.by], shown, shown.sums[: most or None], style, keys)
    if shown.by != "kernel":
        yield ""
        yield from _sums("kernel", shown, shown.kernels[: most or None], style, {})
    if hidden:
        yield ""
        yield ((hidden, styles.FAINT),)


def _sums(
    title: str, shown: "TimelineView", rows: "list[Sum]", style: "Style", keys: dict[str, str]
) -> list[Line]:
    """A table of device time; each row has the color of its label and, in `keys`, its letter."""
    from assay.observe.timeline.durations import duration
    from assay.observe.timeline.palette import label_color

    is_block = style.is_unicode and style.is_colorful
    cells: list[tuple[Part, ...]] = []
    for row in rows:
        color = (
            shown.color(row.name, style.theme) if keys else label_color(row.op, "op", style.theme)
        )
        cells.append(
            (
                ("\u25a0" if is_block else keys.get(row.name, ""), color),
                duration(row.ns),
                f"{row.share:.1%}",
                f"{row.count:,}",
                row.name,
            )
        )
    room = (
        style.width
        - 7
        - sum(max(len(cell[column]) for cell in (*cells, HEADINGS)) + 2 for column in (1, 2, 3))
    )
    fitted = [(*cell[:4], clipped(str(cell[4]), max(room, 24))) for cell in cells]
    return table((*HEADINGS, title), fitted, Canvas(style.width), right=(1, 2, 3))
