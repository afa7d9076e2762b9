"""What a terminal shows of a trace: lanes in columns, sums by operation, the top kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.answers import Answer, data_of
from assay.lazy_import import pl
from assay.observe.timeline.palette import label_color
from assay.observe.timeline.usage import Columns, Sum, columns, device_sums, labels

if TYPE_CHECKING:
    from assay.observe.timeline.lanes import Lane, Layout
    from assay.observe.timeline.window import Window
    from assay.observe.trace import Trace


@dataclass(frozen=True)
class TimelineView(Answer):
    """A window of a trace, aggregated."""

    trace: Trace
    drawn: Layout
    window: Window
    by: str
    words: list[str]
    """Labels by number."""
    lanes: list[tuple[Lane, Columns]]
    """Lanes with something in the window."""
    sums: list[Sum]
    kernels: list[Sum]
    steps: list[dict[str, Any]]
    """Steps that overlap the window."""
    ranks: dict[str, int]
    """Labels by device time, from 0."""
    limit: int | None = None
    """Lanes, sums and kernels at most in JSON; all without one."""

    def color(self, label: str, theme: str) -> str:
        """The color of a label of this view."""
        return label_color(label, self.by, theme, self.ranks.get(label))

    @property
    def device_ns(self) -> int:
        """Sum of the time of kernels and copies in the window."""
        return sum(total.ns for total in self.sums)

    def to_json(self) -> dict[str, Any]:
        """The view as JSON data."""
        most = self.limit or None
        return {
            "source": self.trace.header.source,
            "events": self.drawn.events.height,
            "start_ns": self.drawn.origin_ns,
            "dur_ns": self.drawn.end_ns - self.drawn.origin_ns,
            "window": {
                "from_ns": self.window.from_ns,
                "to_ns": self.window.to_ns,
                "step": self.window.step,
            },
            "by": self.by,
            "device_ns": self.device_ns,
            "lanes": [self._lane_data(lane, cells) for lane, cells in self.lanes[:most]],
            "sums": [total.to_data() for total in self.sums[:most]],
            "kernels": [kernel.to_data() for kernel in self.kernels[:most]],
            "steps": self.steps,
            "degradations": degradations(self.trace, self.drawn),
        }

    def _lane_data(self, lane: Lane, cells: Columns) -> dict[str, Any]:
        return {
            **data_of(lane, "name group kind rank device stream pid tid"),
            "events": cells.events,
            "busy_ns": cells.busy_ns,
            "busy_share": cells.busy_ns / self.window.dur_ns,
            "spans": self._spans(cells),
        }

    def _spans(self, cells: Columns) -> list[dict[str, Any]]:
        """Runs of columns with one label; what lies between them is idle."""
        count = len(cells.label)
        width = self.window.dur_ns / count
        edges = np.flatnonzero(np.diff(cells.label)) + 1
        starts = np.r_[0, edges]
        ends = np.r_[edges, count]
        return [
            {
                "start_ns": self.window.from_ns + round(low * width),
                "dur_ns": round((high - low) * width),
                "busy_ns": round(float(cells.coverage[low:high].sum()) * width),
                "label": self.words[cells.label[low]],
            }
            for low, high in zip(starts.tolist(), ends.tolist(), strict=True)
            if cells.label[low] >= 0
        ]


def view(
    trace: Trace, drawn: Layout, window: Window, by: str, count: int, limit: int | None = None
) -> TimelineView:
    """Aggregate a window of a trace to `count` columns."""
    label = labels(drawn.events, by)
    codes = label.values[drawn.order]
    lanes = [(lane, columns(drawn, lane, window, codes, count)) for lane in drawn.lanes]
    sums = device_sums(drawn, window, by)
    return TimelineView(
        trace,
        drawn,
        window,
        by,
        label.words,
        [(lane, cells) for lane, cells in lanes if cells.events],
        sums,
        sums if by == "kernel" else device_sums(drawn, window, "kernel"),
        _steps(trace, window),
        {row.name: rank for rank, row in enumerate(sums)},
        limit,
    )


def default_label(trace: Trace) -> str:
    """By operation where the trace has any, else by kernel."""
    return "op" if trace.events["op"].null_count() < trace.events.height else "kernel"


def degradations(trace: Trace, drawn: Layout) -> list[str]:
    """What the trace lacks, with what cannot be drawn."""
    lacking = list(trace.header.degradations)
    if trace.header.dropped:
        lacking.append(f"{trace.header.dropped:,} records were dropped when the trace was recorded")
    if drawn.undrawn:
        lacking.append(f"{drawn.undrawn:,} events have no start time and are not drawn")
    return lacking


def _steps(trace: Trace, window: Window) -> list[dict[str, Any]]:
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    rows = trace.steps.filter((pl.col("start_ns") < window.to_ns) & (end > window.from_ns))
    names = ("step", "rank", "phase", "start_ns", "dur_ns", "batch")
    return rows.sort("start_ns").select(names).to_dicts()
