"""From the end of a trace backward: which event, at each moment, was waited for."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from assay.array_types import Ints
from assay.diagnose.critical_path.threads import Threads
from assay.diagnose.replay.edges import FROM_START, TO_END, Edges

PARTS: Final = ("device", "launch latency", "device gap", "host", "host, no event")
"""What a stretch of the path is.

device: a kernel or copy runs; launch latency: the call that queued it has returned and it has not
begun; device gap: what it waited for on the device has ended and it has not begun; host: a call or
operation of the host runs; host, no event: the thread runs and the trace does not say what.
"""
DEVICE, LATENCY, GAP, HOST, SILENT = range(len(PARTS))


UNEXPLAINED_NS: Final = 20_000
"""A delay after what an event waited for that is longer than any launch or dispatch."""


class Path(NamedTuple):
    """Stretches of time in order, without a hole; each belongs to one event."""

    start: Ints
    end: Ints
    row: Ints
    """The event; -1 where the thread of the host had none open."""
    part: Ints
    """Places in `PARTS`."""
    inferred: int = 0
    """Events whose source no edge shows: the work that ended last before they began."""


class _Waits:
    """The calls of each thread that returned because a device event had ended, by their return."""

    def __init__(self, end: Ints, edges: Edges, threads: Threads) -> None:
        chosen = edges.binding & np.isin(edges.kind, TO_END)
        call, source = edges.dst[chosen], edges.src[chosen]
        order = np.lexsort((end[source], end[call], threads.thread[call]))
        self._source, self._returned = source[order], end[call][order]
        thread = threads.thread[call[order]]
        self._edges = np.searchsorted(thread, np.arange(threads.count + 1)).tolist()

    def before(self, thread: int, moment: int) -> int:
        """What the last of a thread's calls that had returned by then waited for, or -1."""
        first, last = self._edges[thread], self._edges[thread + 1]
        place = first + int(np.searchsorted(self._returned[first:last], moment, side="right"))
        return int(self._source[place - 1]) if place > first else -1


class _Sources:
    """For each device event what decided when it began."""

    def __init__(self, start: Ints, end: Ints, edges: Edges, device: Ints) -> None:
        count = len(start)
        chosen = edges.binding & ~np.isin(edges.kind, TO_END)
        self.row = np.full(count, -1, np.int64)
        self.is_call = np.zeros(count, bool)
        self.row[edges.dst[chosen]] = edges.src[chosen]
        self.is_call[edges.dst[chosen]] = np.isin(edges.kind[chosen], FROM_START)
        self._add_ended(start, end, device)

    def _add_ended(self, start: Ints, end: Ints, device: Ints) -> None:
        """Where an event began long after what is known to hold it, other work ended just before.

        Traces may lack the calls by which one stream waits for another.
        """
        source = np.maximum(self.row[device], 0)
        since = np.where(self.row[device] >= 0, np.minimum(end[source], start[device]), -1)
        by_end = device[np.argsort(end[device], kind="stable")]
        place = np.searchsorted(end[by_end], start[device], side="right") - 1
        other = by_end[np.maximum(place, 0)]
        unexplained = (start[device] - since > UNEXPLAINED_NS) & (place >= 0)
        unexplained &= (end[other] > since) & (start[other] < start[device])
        self.row[device[unexplained]] = other[unexplained]
        self.is_call[device[unexplained]] = False
        self.inferred = int(unexplained.sum())


def walk(
    start: Ints, end: Ints, edges: Edges, threads: Threads, device: Ints, last: int, low: int
) -> Path:
    """The path that ends with the device event `last`, back to the moment `low`.

    `device` are the rows of all device events.
    """
    waits, sources = _Waits(end, edges, threads), _Sources(start, end, edges, device)
    pieces: list[tuple[int, int, int, int]] = []
    runs: list[tuple[int, int, int]] = []
    row, moment = last, int(end[last])
    # Each turn goes on at an earlier event; the count ends a walk through damaged times.
    for _ in range(len(start)):
        began = max(min(int(start[row]), moment), low)
        pieces.append((began, moment, row, DEVICE))
        source = int(sources.row[row])
        if began <= low or source < 0:
            break
        # Kernels of a stream may overlap, and a kernel may begin before its call returns.
        moment = max(min(int(end[source]), began), low)
        if not sources.is_call[row]:
            pieces.append((moment, began, row, GAP))
            row = source
            continue
        pieces.append((moment, began, row, LATENCY))
        thread = int(threads.thread[source])
        row = waits.before(thread, moment) if thread >= 0 else -1
        done = min(max(int(end[row]), low), moment) if row >= 0 else low
        runs.append((thread, done, moment))
        moment = done
        if row < 0 or moment <= low:
            break
    return _joined(pieces, runs, threads)._replace(inferred=sources.inferred)


def _joined(
    pieces: list[tuple[int, int, int, int]], runs: list[tuple[int, int, int]], threads: Threads
) -> Path:
    """All stretches in order of time; runs of the host become the events of the thread."""
    parts = [np.array(pieces, np.int64).reshape(-1, 4)]
    for thread, low, high in runs:
        if thread < 0:
            parts.append(np.array([[low, high, -1, SILENT]], np.int64))
            continue
        activity = threads.between(thread, low, high)
        kind = np.where(activity.row >= 0, HOST, SILENT)
        parts.append(np.column_stack((activity.start, activity.end, activity.row, kind)))
    table = np.concatenate(parts)
    table = table[table[:, 1] > table[:, 0]]
    table = table[np.argsort(table[:, 0], kind="stable")]
    start, end, row, part = (np.ascontiguousarray(column) for column in table.T)
    return Path(start, end, row, part)
