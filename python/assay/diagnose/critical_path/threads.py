"""What the threads of the host did, moment by moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from assay.array_types import Ints
from assay.observe.timeline import nesting


class Run(NamedTuple):
    """Stretches of a thread's time in order; `row` is -1 where no event was open."""

    start: Ints
    end: Ints
    row: Ints


class Threads:
    """The innermost event of each thread at each moment."""

    def __init__(self, start: Ints, end: Ints, thread: Ints) -> None:
        """Sort the events of threads; `thread` is -1 for others."""
        self._start, self._end = start, end
        rows = np.flatnonzero(thread >= 0)
        _, number = np.unique(thread[rows], return_inverse=True)
        self.thread = np.full(len(start), -1, np.int64)
        self.thread[rows] = number
        self.count = int(self.thread.max(initial=-1)) + 1
        order = np.lexsort((rows, -end[rows], start[rows], number))
        self._rows = rows[order]
        self._edges = np.searchsorted(self.thread[self._rows], np.arange(self.count + 1))
        self._segments: dict[int, nesting.Segments] = {}

    def between(self, thread: int, low: int, high: int) -> Run:
        """What a thread did from `low` to `high`, without a hole."""
        rows = self._rows[self._edges[thread] : self._edges[thread + 1]]
        if thread not in self._segments:
            start, end = self._start[rows], self._end[rows]
            self._segments[thread] = nesting.innermost(start, end, nesting.tracks(start, end))
        whole = self._segments[thread]
        first = int(np.searchsorted(whole.end, low, side="right"))
        last = int(np.searchsorted(whole.start, high, side="left"))
        start = np.maximum(whole.start[first:last], low)
        end = np.minimum(whole.end[first:last], high)
        return _filled(start, end, rows[whole.owner[first:last]], low, high)


def _filled(start: Ints, end: Ints, owner: Ints, low: int, high: int) -> Run:
    """Stretches with those between them, in which no event was open."""
    edges = np.empty(2 * len(start) + 2, np.int64)
    edges[0], edges[-1] = low, high
    edges[1:-1:2], edges[2:-1:2] = start, end
    row = np.full(2 * len(start) + 1, -1, np.int64)
    row[1::2] = owner
    kept = edges[1:] > edges[:-1]
    return Run(edges[:-1][kept], edges[1:][kept], row[kept])
