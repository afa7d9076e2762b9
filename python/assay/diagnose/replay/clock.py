"""The virtual clock: when each event begins and ends, given delays and durations.

Deterministic: the same edges and durations always give the same times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.array_types import Ints
from assay.diagnose.replay.edges import FROM_START, TO_END, Edges
from assay.lazy_import import np

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Times:
    """Start and end of each event of `rows`, in nanoseconds from the first."""

    rows: Ints
    start: Ints
    end: Ints


def run(
    edges: Edges, observed_start: Ints, work_ns: Ints | None = None, lag_ns: Ints | None = None
) -> Times:
    """Replay: every event as early as what it waits for allows.

    `observed_start` of the events of `edges.rows` gives their order, and the time of those that
    wait for nothing; `work_ns` and `lag_ns` stand in for those of the edges.
    """
    work = edges.work_ns if work_ns is None else work_ns
    lag = edges.lag_ns if lag_ns is None else lag_ns
    order = np.argsort(observed_start, kind="stable")
    place = np.full(int(edges.rows.max(initial=-1)) + 1, -1, np.int64)
    place[edges.rows[order]] = np.arange(len(order))
    origin = int(observed_start.min()) if len(order) else 0
    starts, ends = _evaluate(
        len(order),
        *_incoming(place, edges, lag, len(order)),
        work[order].tolist(),
        (observed_start[order] - origin).tolist(),
    )
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return Times(edges.rows, _times(starts)[back], _times(ends)[back])


def _times(values: list[int]) -> Ints:
    """Times as an array; what damaged durations carry beyond its range ends at its border."""
    if values and not -_FAR < min(values) <= max(values) < _FAR:
        values = [min(max(value, -_FAR), _FAR) for value in values]
    return np.array(values, np.int64)


_FAR = 1 << 62


_Incoming = tuple[list[int], list[int], list[int], list[int]]
"""Edges sorted by destination: bounds of each event, sources, delays, codes of anchors."""
_FINISH, _START, _HOLDS_END = 0, 1, 2

_Later = dict[int, list[tuple[int, int]]]
"""By source: destinations that begin before it and end after it, with delays."""


def _incoming(place: Ints, edges: Edges, lag: Ints, count: int) -> tuple[_Incoming, _Later]:
    src, dst = place[edges.src], place[edges.dst]
    anchor = np.where(np.isin(edges.kind, FROM_START), _START, _FINISH)
    anchor[np.isin(edges.kind, TO_END)] = _HOLDS_END
    later: _Later = {}
    backward = (anchor == _HOLDS_END) & (src > dst)
    for source, target, delay in zip(
        src[backward].tolist(), dst[backward].tolist(), lag[backward].tolist(), strict=True
    ):
        later.setdefault(source, []).append((target, delay))
    kept = np.flatnonzero(~backward)
    kept = kept[np.lexsort((src[kept], dst[kept]))]
    bounds = np.searchsorted(dst[kept], np.arange(count + 1))
    incoming = (bounds.tolist(), src[kept].tolist(), lag[kept].tolist(), anchor[kept].tolist())
    return incoming, later


def _evaluate(
    count: int, incoming: _Incoming, later: _Later, work: list[int], anchored: list[int]
) -> tuple[list[int], list[int]]:
    """One pass in the order of observed starts, which every edge into a start follows.

    A call that waits for an event which begins after it ends once that event has ended; whatever
    follows the call began later still.
    """
    bounds, sources, lags, anchors = incoming
    starts, ends = [0] * count, [0] * count
    last = 0
    for event in range(count):
        first, last = last, bounds[event + 1]
        begin = held = _NEVER
        for edge in range(first, last):
            anchor = anchors[edge]
            time = (starts if anchor == _START else ends)[sources[edge]] + lags[edge]
            if anchor == _HOLDS_END:
                held = max(held, time)
            elif time > begin:
                begin = time
        if begin == _NEVER:
            begin = anchored[event]
        starts[event] = begin
        end = begin + work[event]
        ends[event] = end if end > held else held
        if event in later:
            for target, delay in later[event]:
                ends[target] = max(ends[target], ends[event] + delay)
    return starts, ends


_NEVER = -(1 << 62)
