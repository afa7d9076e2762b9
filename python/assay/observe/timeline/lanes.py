"""Lanes of a timeline: streams of devices and threads of processes, with their spans in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.array_types import Ints
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.schema import DEVICE_KINDS
from assay.observe.timeline.nesting import tracks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.observe.trace import Trace

_LATEST: Final = 2**63 - 1

STREAM, RANGES, THREAD = "stream", "ranges", "thread"
"""Kinds of lane: kernels and copies of a stream, ranges marked on a stream, a thread."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A stream or a thread; its spans are rows `first` to `first + count` of the layout."""

    name: str
    group: str
    kind: str
    rank: int | None
    device: int | None
    stream: int | None
    pid: int | None
    tid: int | None
    first: int
    count: int
    tracks: int
    """Rows that its overlapping spans need."""

    @property
    def rows(self) -> slice:
        """Its rows of the layout."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Layout:
    """The spans of a trace by lane and start."""

    lanes: list[Lane]
    events: pl.DataFrame
    """Events that have a start, as the trace has them."""
    order: Ints
    """Row of `events` for each row of the layout."""
    start: Ints
    end: Ints
    track: NDArray[np.int32]
    origin_ns: int
    """The earliest start: time zero of the timeline."""
    end_ns: int
    undrawn: int
    """Events without a start."""


def layout(trace: Trace) -> Layout:
    """Sort the events of a trace into lanes and tracks."""
    events = trace.events
    if events["start_ns"].null_count():
        events = events.filter(pl.col("start_ns").is_not_null())
    if not events.height:
        raise InputError(
            "the trace has no events with a start time: expected at least one",
            "assay trace summary lists what a trace holds",
        )
    kind, stream = pl.col("kind"), pl.col("stream")
    on_device = kind.is_in(list(DEVICE_KINDS)).fill_null(False)
    # Frameworks mark ranges on streams too; syncs name a stream, but it is a thread that waits.
    marked = (kind == "range") & stream.is_not_null() & pl.col("device").is_not_null()
    place = pl.when(on_device).then(1).when(marked).then(0).otherwise(2)
    on_stream = place < 2
    # Only what decides the order is moved: names and arguments stay where they are.
    keyed = events.select(
        "rank",
        "pid",
        "start_ns",
        # Neither negative nor past the end of 64-bit time.
        pl.min_horizontal(
            pl.col("dur_ns").fill_null(0).clip(lower_bound=0),
            _LATEST - pl.col("start_ns").clip(lower_bound=0),
        ).alias("dur_ns"),
        place.cast(pl.Int8).alias("place"),
        pl.when(on_stream).then(pl.col("device")).alias("device_key"),
        pl.when(on_stream).then(stream).alias("stream_key"),
        pl.when(~on_stream).then(pl.col("tid")).alias("tid_key"),
    )
    keys = ("rank", "place", "device_key", "pid", "stream_key", "tid_key")
    # Devices come before threads, ranges of a stream before its kernels.
    groups = (
        keyed.group_by(keys)
        .agg(pl.len().alias("count"), pl.col("start_ns").min().alias("since"))
        .sort(
            pl.col("rank"),
            pl.col("place") == 2,
            "device_key",
            "pid",
            "stream_key",
            "place",
            "since",
            "tid_key",
        )
        .with_row_index("lane")
    )
    ordered = (
        keyed.with_row_index("row")
        .join(groups.select("lane", *keys), on=list(keys), nulls_equal=True)
        .select("row", "lane", "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
        # The row decides between equal spans: a sort on more threads orders them the same way.
        .sort("lane", "start_ns", "end_ns", "row", descending=[False, False, True, False])
    )
    start, end = ordered["start_ns"].to_numpy(), ordered["end_ns"].to_numpy()
    track = np.zeros(len(start), np.int32)
    lanes: list[Lane] = []
    first = 0
    for row, name in zip(groups.to_dicts(), _names(trace, groups), strict=True):
        rows = slice(first, first + row["count"])
        track[rows] = tracks(start[rows], end[rows])
        lanes.append(
            Lane(
                name,
                _group(trace, row),
                (RANGES, STREAM, THREAD)[row["place"]],
                row["rank"],
                row["device_key"],
                row["stream_key"],
                row["pid"],
                row["tid_key"],
                first,
                row["count"],
                int(track[rows].max()) + 1,
            )
        )
        first = rows.stop
    return Layout(
        lanes,
        events,
        ordered["row"].to_numpy().astype(np.int64),
        start,
        end,
        track,
        int(start.min()),
        int(end.max()),
        trace.events.height - events.height,
    )


def _group(trace: Trace, row: dict[str, Any]) -> str:
    """The device or the process that a lane belongs to."""
    rank = "" if row["rank"] is None else f"rank {row['rank']} "
    if row["place"] < 2:
        return f"{rank}{_numbered('device', row['device_key'])}"
    name = trace.header.processes.get(str(row["pid"]))
    return f"{rank}{_numbered(name or 'process', row['pid'])}"


def _names(trace: Trace, groups: pl.DataFrame) -> list[str]:
    """Names of lanes; the process is named where two of them use one stream number."""
    rows = groups.to_dicts()
    keys = [(row["rank"], row["device_key"], row["stream_key"], row["place"]) for row in rows]
    times = Counter(keys)
    names = []
    for row, key in zip(rows, keys, strict=True):
        if row["place"] == 2:
            given = trace.header.processes.get(f"{row['pid']}/{row['tid_key']}")
            names.append(given or _numbered("thread", row["tid_key"]))
            continue
        owner = f" of {_numbered('process', row['pid'])}" if times[key] > 1 else ""
        marks = " ranges" if row["place"] == 0 else ""
        names.append(f"{_numbered('stream', row['stream_key'])}{marks}{owner}")
    return names


def _numbered(noun: str, number: int | None) -> str:
    return f"no {noun}" if number is None else f"{noun} {number}"
