"""The events of one device in the order of their launch, as integer codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.array_types import Flags, Ints
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.structure.names import CLASS_CODES, also, classify

_MIX = np.uint64(0x9E3779B97F4A7C15)
_OUT_OF_ORDER = 0.01
"""Share of launches that may start out of order before correlation is not believed."""


@dataclass(slots=True)
class Names:
    """The distinct (kind, name) pairs of a trace's device events."""

    texts: list[str]
    kinds: list[str]
    classes: Ints
    further: list[tuple[int, ...]]
    """Codes of further classes, where a name lists several operations."""


@dataclass(slots=True)
class Sequence:
    """Device events of one rank and device, in launch order; all arrays have one entry an event."""

    rank: int
    device: int
    rows: Ints
    """Rows of the event table."""
    names: Ints
    """Index into `Names`."""
    codes: Ints
    """Identity of a kernel: its name, grid and block."""
    start: Ints
    dur: Ints
    gap: Ints
    """Idle time of the device before an event, in start order; 0 where events overlap."""
    replay: Ints
    """Number of the graph replay, -1 outside replays."""
    stream: Ints
    grid: NDArray[np.int32]
    bytes: Ints

    def __len__(self) -> int:
        return len(self.rows)


def sequences(events: pl.DataFrame) -> tuple[Names, list[Sequence]]:
    """The device events of a trace, one sequence for each rank, process and device."""
    used = ("kind", "name", "start_ns", "dur_ns", "rank", "device", "stream", "pid", "correlation",
            "node", "grid", "block", "bytes")  # fmt: skip
    table = (
        events.lazy()
        .with_row_index("row")
        .filter(pl.col("kind").is_in(list(schema.DEVICE_KINDS)))
        .select("row", *used)
        .collect()
    )
    names, name_codes = _names(table)
    columns = {
        name: table[name].fill_null(-1).cast(pl.Int64).to_numpy()
        for name in ("rank", "device", "pid", "start_ns", "dur_ns", "stream", "bytes", "node")
    }
    known = table["correlation"].is_not_null().to_numpy()
    correlation = table["correlation"].fill_null(-1).to_numpy()
    grid = _triples(table["grid"])
    codes = _identities(name_codes, grid, _triples(table["block"]))
    graph_launches = _replays(events)
    rows = table["row"].cast(pl.Int64).to_numpy()
    gathered = []
    for rank, device, members in _groups(columns):
        start = columns["start_ns"][members]
        stream = columns["stream"][members]
        launched = correlation[members]
        order = _launch_order(start, stream, launched, known[members], columns["node"][members])
        members = members[order]
        gathered.append(
            Sequence(
                rank,
                device,
                rows[members],
                name_codes[members],
                codes[members],
                columns["start_ns"][members],
                columns["dur_ns"][members],
                _gaps(columns["start_ns"][members], columns["dur_ns"][members]),
                _replay_numbers(correlation[members], graph_launches),
                columns["stream"][members],
                grid[members],
                columns["bytes"][members],
            )
        )
    return names, gathered


def _names(table: pl.DataFrame) -> tuple[Names, Ints]:
    pairs = table.select(
        code=pl.col("name").to_physical().cast(pl.Int64).fill_null(-1) * 16
        + pl.col("kind").to_physical().cast(pl.Int64) % 16
    )["code"].to_numpy()
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    chosen = table[first.tolist()].select(
        pl.col("name").cast(pl.String).fill_null(""), pl.col("kind").cast(pl.String)
    )
    texts, kinds = chosen["name"].to_list(), chosen["kind"].to_list()
    classes = [CLASS_CODES[classify(kind, text)] for kind, text in zip(kinds, texts, strict=True)]
    further = [tuple(CLASS_CODES[kind] for kind in also(text)) for text in texts]
    return Names(texts, kinds, np.array(classes, np.int64), further), inverse.astype(np.int64)


def _triples(column: pl.Series) -> NDArray[np.int32]:
    """A column of grids or blocks as three columns; 0 where unknown."""
    parts = [column.arr.get(axis).fill_null(0).to_numpy() for axis in range(3)]
    return np.stack(parts, axis=1).astype(np.int32)


def _identities(names: Ints, grid: NDArray[np.int32], block: NDArray[np.int32]) -> Ints:
    mixed = names.astype(np.uint64) + np.uint64(1)
    for column in (*grid.T, *block.T):
        mixed = (mixed ^ column.astype(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    codes: Ints = np.unique(mixed, return_inverse=True)[1].astype(np.int64)
    return codes


def _groups(columns: dict[str, Ints]) -> Iterator[tuple[int, int, Ints]]:
    keys = np.zeros(len(columns["rank"]), np.int64)
    for name in ("rank", "pid", "device"):
        values, inverse = np.unique(columns[name], return_inverse=True)
        keys = keys * len(values) + inverse
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    for members in np.split(order, edges):
        if len(members):
            first = members[0]
            yield int(columns["rank"][first]), int(columns["device"][first]), members


def _launch_order(start: Ints, stream: Ints, correlation: Ints, known: Flags, node: Ints) -> Ints:
    """The order of launch: by correlation where it is known and believable, else by start.

    Launch order is the same in every step; start times of several streams interleave at random.
    Inside a replay, nodes are numbered in the order of their capture.
    """
    by_start = np.lexsort((correlation, start))
    if not known.all():
        return by_start
    busiest = np.bincount(np.unique(stream, return_inverse=True)[1]).argmax()
    on_main = stream[by_start] == np.unique(stream)[busiest]
    steps = np.diff(correlation[by_start][on_main])
    if len(steps) and (steps < 0).mean() > _OUT_OF_ORDER:
        return by_start
    return np.lexsort((start, node, correlation))


def _gaps(start: Ints, dur: Ints) -> Ints:
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate(start[order] + dur[order])
    gap = np.zeros(len(start), np.int64)
    gap[order[1:]] = np.maximum(start[order][1:] - ends[:-1], 0)
    return gap


def _replays(events: pl.DataFrame) -> Ints:
    """Correlations of graph launches, or all that several kernels share."""
    calls = events.lazy().filter(pl.col("kind") == "api").select("name", "correlation").collect()
    launches = [
        name for name in calls["name"].unique().cast(pl.String) if name and "GraphLaunch" in name
    ]
    launched = calls.filter(pl.col("name").is_in(launches))["correlation"]
    return np.unique(launched.drop_nulls().to_numpy()).astype(np.int64)


def _replay_numbers(correlation: Ints, launches: Ints) -> Ints:
    values, inverse, counts = np.unique(correlation, return_inverse=True, return_counts=True)
    # One launch starts one kernel; a correlation that several share is a graph's.
    is_replay = (values >= 0) & ((counts > 2) | np.isin(values, launches))
    number = np.where(is_replay, np.cumsum(is_replay) - 1, -1)
    return number[inverse].astype(np.int64)
