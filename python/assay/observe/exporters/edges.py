"""What an event had to wait for, as far as a trace shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.lazy_import import LazyModule
from assay.observe import schema
from assay.observe.exporters import tracks
from assay.observe.exporters.tracks import Layout

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
else:
    np = LazyModule("numpy", globals(), "np")
    pl = LazyModule("polars", globals(), "pl")


class Edges(NamedTuple):
    """For each event the row of another one, or -1."""

    parent: np.ndarray
    """The host event around a host event, on its thread."""
    before: np.ndarray
    """The one before it: on its thread inside the same parent, or on its stream."""
    call: np.ndarray
    """The API call that started a device event."""


def edges(events: pl.DataFrame, drawn: Layout) -> Edges:
    """Dependencies from nesting and order of threads, from correlation, and from stream order."""
    count = len(events)
    parent, before, call = (np.full(count, -1, np.int64) for _ in range(3))
    pairs = tracks.launches(events)
    call[pairs["row"].to_numpy()] = pairs["call"].to_numpy()
    is_device = events["kind"].cast(pl.String).is_in(list(schema.DEVICE_KINDS)).to_numpy()
    # A stream runs in order, also where the ends of its kernels overlap: its lanes are one.
    first: dict[tuple[object, ...], int] = {}
    streams = np.array(
        [first.setdefault(track[:4], len(first)) for track in drawn.tracks], np.int64
    )
    rows = np.flatnonzero(is_device)
    order = rows[np.lexsort((rows, drawn.start[rows], streams[drawn.track[rows]]))]
    same = streams[drawn.track[order[1:]]] == streams[drawn.track[order[:-1]]]
    before[order[1:][same]] = order[:-1][same]
    rows = np.flatnonzero(~is_device)
    order = rows[np.lexsort((rows, -drawn.end[rows], drawn.start[rows], drawn.track[rows]))]
    edge = np.flatnonzero(np.diff(drawn.track[order])) + 1
    for thread in np.split(order, edge):
        _nest(thread.tolist(), drawn, parent, before)
    return Edges(parent, before, call)


def _nest(rows: list[int], drawn: Layout, parent: np.ndarray, before: np.ndarray) -> None:
    """Parents and earlier siblings on one lane of a thread, whose events nest."""
    starts, ends = drawn.start[rows].tolist(), drawn.end[rows].tolist()
    stack: list[tuple[int, int]] = []
    latest: dict[int, int] = {}
    parents, siblings = [], []
    for row, start, end in zip(rows, starts, ends, strict=True):
        while stack and stack[-1][1] <= start:
            stack.pop()
        above = stack[-1][0] if stack else -1
        parents.append(above)
        siblings.append(latest.get(above, -1))
        latest[above] = row
        stack.append((row, end))
    parent[rows], before[rows] = parents, siblings
