"""Time by operation and by kernel within a window, and how busy each lane is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay.array_types import Flags, Floats, Ints
from assay.lazy_import import pl
from assay.observe.schema import DEVICE_KINDS
from assay.observe.timeline.codes import Codes, codes
from assay.observe.timeline.nesting import innermost, merged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.observe.timeline.lanes import Lane, Layout
    from assay.observe.timeline.window import Window

NOT_MAPPED: Final = "not mapped"
"""The label of a kernel without an operation."""

BY: Final = ("op", "kernel", "phase")
"""What spans are labeled and colored by."""


def labels(events: pl.DataFrame, by: str) -> Codes:
    """The label of each event: its operation, its name, or its phase.

    An event without an operation is labeled by its kind, a kernel as not mapped.
    """
    if by == "kernel":
        return codes(events["name"].cast(pl.String).fill_null("(no name)"))
    if by == "phase":
        return codes(events["phase"].cast(pl.String).fill_null("no phase"))
    kind = pl.col("kind").cast(pl.String).fill_null("unknown")
    kind = pl.when(kind == "kernel").then(pl.lit(NOT_MAPPED)).otherwise(kind)
    return codes(events.select(pl.coalesce(pl.col("op").cast(pl.String), kind))["op"])


@dataclass(frozen=True, slots=True)
class Sum:
    """Device time with one label within a window."""

    name: str
    op: str
    count: int
    ns: int
    share: float
    """Of the device time of the window."""

    def to_data(self) -> dict[str, Any]:
        """The sum as a row of JSON."""
        return asdict(self)


def device_sums(drawn: Layout, window: Window, by: str) -> list[Sum]:
    """Time on devices by label, the largest first; spans are clipped to the window."""
    on_device = drawn.events["kind"].is_in(DEVICE_KINDS).fill_null(False).to_numpy()[drawn.order]
    rows = np.flatnonzero(_inside(drawn, window) & on_device)
    if not len(rows):
        return []
    times = _clipped(drawn, window, rows)
    events = drawn.events.select("name", "op", "kind", "phase")[drawn.order[rows]]
    label = labels(events, by)
    count = np.bincount(label.values, minlength=len(label.words))
    total = _sums(label.values, times, len(label.words))
    ops = labels(events, "op")
    everything = max(sum(total), 1)
    first = np.zeros(len(label.words), np.int64)
    first[label.values[::-1]] = np.arange(len(rows))[::-1]
    sums = [
        Sum(
            word,
            ops.words[ops.values[first[code]]],
            int(count[code]),
            total[code],
            total[code] / everything,
        )
        for code, word in enumerate(label.words)
    ]
    return sorted(sums, key=lambda total: (-total.ns, total.name))


def _sums(group: NDArray[np.int32], times: Ints, groups: int) -> list[int]:
    """Exact sums of times by group, in halves of 32 bits so that none overflows."""
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(high, group, times >> 32)
    np.add.at(low, group, times & 0xFFFFFFFF)
    return [(upper << 32) + lower for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]


def _inside(drawn: Layout, window: Window) -> Flags:
    inside: Flags = (drawn.start < window.to_ns) & (drawn.end > window.from_ns)
    return inside


def _clipped(drawn: Layout, window: Window, rows: NDArray[np.intp] | slice) -> Ints:
    low = np.maximum(drawn.start[rows], window.from_ns)
    length: Ints = np.minimum(drawn.end[rows], window.to_ns) - low
    return length


class Columns(NamedTuple):
    """A lane in columns of equal time: how busy each is, and the label with the most time."""

    coverage: Floats
    label: NDArray[np.int32]
    """-1 where the lane is idle."""
    events: int
    busy_ns: int


def columns(
    drawn: Layout, lane: Lane, window: Window, label: NDArray[np.int32], count: int
) -> Columns:
    """Aggregate a lane to `count` columns; `label` has the label of each row of the layout."""
    start, end = drawn.start[lane.rows], drawn.end[lane.rows]
    inside = (start < window.to_ns) & (end > window.from_ns)
    low = np.maximum(start[inside], window.from_ns)
    high = np.minimum(end[inside], window.to_ns)
    union = merged(low, high)
    width = window.dur_ns / count
    busy = _spread(union.start, union.end, np.zeros(len(union.start), np.int64), 1, window, count)
    if lane.kind == "stream":
        spans = low, high, label[lane.rows][inside]
    else:
        # Spans of threads are nested: the innermost one is what the thread does.
        nested = innermost(low, high, drawn.track[lane.rows][inside])
        spans = nested.start, nested.end, label[lane.rows][inside][nested.owner]
    used, dense = np.unique(spans[2], return_inverse=True)
    times = _spread(spans[0], spans[1], dense, max(len(used), 1), window, count)
    dominant = np.full(count, -1, np.int32)
    if len(used):
        dominant = np.where(busy[0] > 0, used[np.argmax(times, axis=0)], -1).astype(np.int32)
    total = int((union.end - union.start).sum())
    return Columns(np.minimum(busy[0] / width, 1.0), dominant, int(inside.sum()), total)


def _spread(start: Ints, end: Ints, group: Ints, groups: int, window: Window, count: int) -> Floats:
    """Time of each group in each column."""
    width = window.dur_ns / count
    low, high = (start - window.from_ns) / width, (end - window.from_ns) / width
    first = np.clip(low.astype(np.int64), 0, count - 1)
    last = np.clip(high.astype(np.int64), 0, count - 1)
    size = groups * (count + 1)
    row = group * (count + 1)

    def added(column: Ints, weight: Floats) -> Floats:
        # The stubs of bincount give integers, whatever the weights.
        total: NDArray[Any] = np.bincount(row + column, weight, size)
        return total.reshape(groups, count + 1)

    same = first == last
    edges = added(first, np.where(same, high - low, first + 1 - low))
    edges += added(last, np.where(same, 0.0, high - last))
    # Columns wholly inside a span: +1 where they begin, -1 where they end, summed up.
    whole = np.where(same, 0.0, 1.0)
    inner = added(np.minimum(first + 1, last), whole) - added(last, whole)
    times: Floats = (edges + np.cumsum(inner, axis=1))[:, :count] * width
    # Differences of large sums leave rounding errors.
    return np.asarray(times.clip(0.0), np.float64)
