"""A trace as a timeline: aggregated for a terminal, or written as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.answers import Answer, Progress, silent
from assay.errors import InputError, unknown_name
from assay.model.language.quantity import check_dimension, parse_quantity
from assay.model.language.units import parse_unit
from assay.observe.structure.opening import open_structured
from assay.observe.timeline import usage
from assay.observe.timeline.lanes import Layout, layout
from assay.observe.timeline.page import address, timeline_blocks, write_page
from assay.observe.timeline.view import TimelineView, default_label, view
from assay.observe.timeline.window import Window, step_window, time_window

if TYPE_CHECKING:
    from assay.observe.trace import Trace


@dataclass(frozen=True, kw_only=True)
class TimelinePage(Answer):
    """A page that was written, and the address that shows the window."""

    path: str
    bytes: int
    events: int
    address: str
    left_out: Sequence[str]


def show_trace(
    trace: str | Path,
    model: str | None = None,
    *,
    step: int | None = None,
    since: str | None = None,
    until: str | None = None,
    by: str | None = None,
    columns: int = 80,
    limit: int | None = None,
    progress: Progress = silent,
) -> TimelineView:
    """Aggregate a trace, a step or the time between two instants to columns of lanes.

    Times, such as 12.5ms, count from the first event; `by` is what spans are summed by: op, kernel
    or phase.
    """
    if by is not None and by not in usage.BY:
        raise unknown_name("label", by, usage.BY)
    opened = open_structured(trace, model, progress=progress)
    progress(f"drawing {opened.events.height:,} events")
    drawn = layout(opened)
    window = _window(opened, drawn, step, since, until)
    return view(opened, drawn, window, by or default_label(opened), columns, limit)


def write_timeline(
    trace: str | Path,
    path: Path,
    model: str | None = None,
    *,
    step: int | None = None,
    since: str | None = None,
    until: str | None = None,
    progress: Progress = silent,
) -> TimelinePage:
    """Write the timeline of a trace as one file with zoom, search and details."""
    opened = open_structured(trace, model, progress=progress)
    progress(f"drawing {opened.events.height:,} events")
    drawn = layout(opened)
    window = _window(opened, drawn, step, since, until)
    if path.is_dir():
        raise InputError(f"html: expected a file, got the folder {path}")
    name = Path(trace).name
    nbytes, left_out = write_page(opened, drawn, path, name=name, progress=progress)
    return TimelinePage(
        path=str(path),
        bytes=nbytes,
        events=drawn.events.height,
        address=address(path, drawn, window),
        left_out=left_out,
        notes=left_out,
    )


def timeline_columns(trace: str | Path, name: str) -> dict[str, bytes]:
    """The compressed columns that a page draws a trace from; `name` is its title."""
    opened = open_structured(trace)
    blocks, _ = timeline_blocks(opened, layout(opened), name)
    return blocks


def _window(
    trace: Trace, drawn: Layout, step: int | None, since: str | None, until: str | None
) -> Window:
    if step is not None:
        if since is not None or until is not None:
            raise InputError("expected --step, or --from and --to, got both")
        return step_window(trace, step)
    return time_window(drawn.origin_ns, drawn.end_ns, _time("from", since), _time("to", until))


def _time(option: str, text: str | None) -> int | None:
    """A time in nanoseconds."""
    if text is None:
        return None
    quantity = parse_quantity(text)
    check_dimension(option, quantity.unit, parse_unit("s"))
    return round(quantity.value * 1e9)
