"""Rows of overlapping spans, and which of nested spans is innermost at each moment.

Spans are sorted by start, and by end descending where starts are equal.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assay.array_types import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray


def tracks(start: Ints, end: Ints) -> NDArray[np.int32]:
    """The row of each span such that spans of a row do not overlap; nested spans stack.

    >>> tracks(np.array([0, 1, 2, 7]), np.array([9, 5, 3, 8])).tolist()
    [0, 1, 2, 1]
    """
    if not len(start):
        return np.zeros(0, np.int32)
    # A span without duration still takes a place.
    closed = np.maximum(end, start + 1)
    ended = np.searchsorted(np.sort(closed), start, side="right")
    depth = (np.arange(len(start)) - ended).astype(np.int32)
    cluster = np.cumsum(depth == 0)
    crossing = _crossing(closed, start, depth)
    for number in np.unique(cluster[crossing]):
        # Spans that cross are not nested: each takes the first row that is free.
        low, high = np.searchsorted(cluster, [number, number + 1])
        depth[low:high] = _first_free(start[low:high], closed[low:high])
    return depth


def _crossing(closed: Ints, start: Ints, depth: NDArray[np.int32]) -> NDArray[np.intp]:
    """Spans that overlap the one before them in their row."""
    order = np.lexsort((np.arange(len(start)), depth))
    same = depth[order[1:]] == depth[order[:-1]]
    crossing: NDArray[np.intp] = order[1:][same & (start[order[1:]] < closed[order[:-1]])]
    return crossing


def _first_free(start: Ints, closed: Ints) -> list[int]:
    """The lowest free row for each span."""
    open_spans: list[tuple[int, int]] = []
    free: list[int] = []
    rows: list[int] = []
    count = 0
    for begin, until in zip(start.tolist(), closed.tolist(), strict=True):
        while open_spans and open_spans[0][0] <= begin:
            heappush(free, heappop(open_spans)[1])
        if free:
            row = heappop(free)
        else:
            row, count = count, count + 1
        rows.append(row)
        heappush(open_spans, (until, row))
    return rows


class Segments(NamedTuple):
    """Disjoint stretches of time, each owned by one span."""

    start: Ints
    end: Ints
    owner: Ints


def innermost(start: Ints, end: Ints, depth: NDArray[np.int32]) -> Segments:
    """The self time of nested spans: at each moment the innermost open span owns it.

    >>> innermost(np.array([0, 2]), np.array([9, 5]), np.array([0, 1])).owner.tolist()
    [0, 1, 0]
    """
    parent = _parents(depth)
    count = len(start)
    times = np.concatenate((start, end))
    # At equal times ends come first, deepest first; then starts, outermost first.
    order = np.lexsort(
        (
            np.concatenate((depth, -depth)),
            np.concatenate((np.ones(count, bool), np.zeros(count, bool))),
            times,
        )
    )
    owner = np.concatenate((np.arange(count), parent))[order]
    times = times[order]
    kept = (owner[:-1] >= 0) & (times[1:] > times[:-1])
    return Segments(times[:-1][kept], times[1:][kept], owner[:-1][kept])


def _parents(depth: NDArray[np.int32]) -> Ints:
    """The last span before each one that is a level above; -1 at the top."""
    parent = np.full(len(depth), -1, np.int64)
    above = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        nearest = np.searchsorted(above, rows) - 1
        parent[rows] = np.where(nearest >= 0, above[np.maximum(nearest, 0)], -1)
        above = rows
    return parent


def merged(start: Ints, end: Ints) -> Segments:
    """The union of spans, as disjoint stretches; the owner is the first span of each.

    >>> merged(np.array([0, 1, 7]), np.array([4, 6, 8])).end.tolist()
    [6, 8]
    """
    if not len(start):
        return Segments(start, end, np.zeros(0, np.int64))
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.r_[True, start[1:] > reach[:-1]])
    return Segments(start[first], reach[np.r_[first[1:] - 1, len(start) - 1]], first)
