"""Disjoint intervals of time: who owns each nanosecond where events overlap.

All functions take arrays of whole nanoseconds; an interval is `[start, end)`.
"""

from __future__ import annotations

import numpy as np

from assay.array_types import Ints


def owned_pieces(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """The union of intervals, cut so that each nanosecond belongs to the one that began first.

    Returns the index of the owner, and start and end of its piece, in order of time. An interval
    that others cover owns nothing.
    """
    order = np.lexsort((end, start))
    ends = end[order]
    covered = np.full(len(order), np.iinfo(np.int64).min)
    covered[1:] = np.maximum.accumulate(ends)[:-1]
    first = np.maximum(start[order], covered)
    kept = first < ends
    return order[kept], first[kept], ends[kept]


def paint(points: Ints, start: Ints, end: Ints, values: Ints, canvas: Ints) -> None:
    """Write the value of each interval over the segments that it covers; later ones win.

    Segment `i` of the canvas is `[points[i], points[i + 1])`; every start and end is a point.
    """
    first = np.searchsorted(points, start)
    length = np.maximum(np.searchsorted(points, end) - first, 0)
    before = np.cumsum(length) - length
    place = np.arange(int(length.sum())) + np.repeat(first - before, length)
    canvas[place] = np.repeat(values, length)


def owners(levels: list[tuple[Ints, Ints, Ints]], edges: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut the time from the first to the last edge into pieces of one owner each.

    `levels` are start, end and identity (from 0) of intervals, the most important level first;
    within a level the interval that began first owns what several cover. Pieces are cut at edges.
    Returns start, end and owner (-1 where there is none), in order of time.
    """
    owned = []
    for start, end, identity in levels:
        index, first, last = owned_pieces(start, end)
        first, last = np.clip(first, edges[0], edges[-1]), np.clip(last, edges[0], edges[-1])
        owned.append((first, last, identity[index]))
    points = np.unique(np.concatenate([edges, *(part for spans in owned for part in spans[:2])]))
    canvas = np.full(max(len(points) - 1, 0), -1, np.int64)
    for first, last, identity in reversed(owned):
        paint(points, first, last, identity, canvas)
    # Neighboring segments of one owner are one piece, except across an edge.
    is_edge = np.isin(points[1:-1], edges)
    new = np.concatenate([[True], (np.diff(canvas) != 0) | is_edge]) if len(canvas) else canvas > 0
    first_of = np.flatnonzero(new)
    begin = points[:-1][first_of]
    return begin, np.concatenate([begin[1:], points[-1:]]), canvas[first_of]


def within_budget(group: Ints, duration: Ints, budget: Ints) -> Ints:
    """The part of each duration that a budget pays for: first come, first served in a group.

    Rows are in order of payment; `budget` is that of the row's group, the same in all its rows.
    """
    order = np.argsort(group, kind="stable")
    ordered = duration[order]
    total = np.cumsum(ordered)
    is_first = np.diff(group[order], prepend=np.iinfo(np.int64).min) != 0
    base = (total - ordered)[is_first]
    spent = total - ordered - np.repeat(base, np.diff(np.flatnonzero(np.append(is_first, True))))
    paid = np.empty_like(duration)
    paid[order] = np.clip(budget[order] - spent, 0, ordered)
    return paid


def overlap(start: Ints, end: Ints, busy_start: Ints, busy_end: Ints) -> Ints:
    """How much of each interval a union covers; the union's parts are disjoint and in order."""
    total = np.zeros(len(busy_start) + 1, np.int64)
    total[1:] = np.cumsum(busy_end - busy_start)

    def covered_before(moment: Ints) -> Ints:
        at = np.searchsorted(busy_start, moment, side="right")
        # The last part that has begun may go on beyond the moment.
        over = np.append(busy_end, np.iinfo(np.int64).min)[at - 1] - moment
        covered: Ints = total[at] - np.maximum(np.where(at > 0, over, 0), 0)
        return covered

    return covered_before(end) - covered_before(start)
