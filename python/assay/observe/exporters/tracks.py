"""Where an event is drawn: a stream of a device, or a thread of a process."""

from __future__ import annotations

from typing import NamedTuple

from assay.lazy_import import np, pl
from assay.observe import schema
from assay.observe.exporters.lanes import lanes
from assay.observe.header import TraceHeader

LATEST = 2**63 - 1


class Track(NamedTuple):
    """One lane of a stream or a thread; of a thread, `process` and `thread` are its numbers."""

    rank: int | None
    is_device: bool
    process: int | None
    """The process, or the device."""
    thread: int | None
    """The thread, or the stream."""
    lane: int


class Layout(NamedTuple):
    """The track of each event, and its times on a timeline that begins at zero."""

    tracks: list[Track]
    track: np.ndarray
    """The place of each event's track in `tracks`."""
    start: np.ndarray
    end: np.ndarray


def layout(events: pl.DataFrame) -> Layout:
    """Tracks of events, with one more lane wherever slices overlap without nesting."""
    is_device = pl.col("kind").cast(pl.String).is_in(list(schema.DEVICE_KINDS))
    keys = events.select(
        "rank",
        is_device.alias("is_device"),
        pl.when(is_device).then(pl.col("device").cast(pl.Int64)).otherwise("pid").alias("process"),
        pl.when(is_device).then("stream").otherwise("tid").alias("thread"),
    )
    names = ["rank", "is_device", "process", "thread"]
    distinct = keys.unique().sort(names).with_row_index("place")
    place = keys.join(distinct, on=names, how="left", nulls_equal=True, maintain_order="left")
    start = events["start_ns"].fill_null(0).to_numpy().clip(0)
    duration = events["dur_ns"].fill_null(0).to_numpy().clip(0)
    end = start + np.minimum(duration, LATEST - start)
    number = place["place"].to_numpy().astype(np.int64)
    lane = lanes(number, start, end)
    width = int(lane.max(initial=0)) + 1
    used = np.flatnonzero(np.bincount(number * width + lane))
    place_of = np.zeros(len(distinct) * width, np.int64)
    place_of[used] = np.arange(len(used))
    rows = distinct.rows()
    tracks = [Track._make((*rows[code // width][1:], code % width)) for code in used.tolist()]
    return Layout(tracks, place_of[number * width + lane], start, end)


def process_name(header: TraceHeader, track: Track) -> str:
    """The name of a process or device, as the source has it."""
    if track.is_device:
        name = "no device" if track.process is None else f"GPU {track.process}"
    else:
        name = header.processes.get(str(track.process), "")
        name = name or ("no process" if track.process is None else f"process {track.process}")
    return name if track.rank is None else f"{name}, rank {track.rank}"


def thread_name(header: TraceHeader, track: Track) -> str:
    """The name of a thread or stream, as the source has it."""
    if track.is_device:
        name = "no stream" if track.thread is None else f"stream {track.thread}"
    else:
        name = header.processes.get(f"{track.process}/{track.thread}", "")
        name = name or ("no thread" if track.thread is None else f"thread {track.thread}")
    return f"{name} (overlap {track.lane})" if track.lane else name


def launches(events: pl.DataFrame) -> pl.DataFrame:
    """Rows of device events and of the API call that started each: `row`, `call`."""
    rows = events.lazy().select("rank", "kind", "correlation", "start_ns").with_row_index("row")
    rows = rows.filter(pl.col("correlation").is_not_null())
    kind = pl.col("kind").cast(pl.String)
    calls = (
        rows.filter(kind == "api")
        .sort("start_ns", "row")
        .unique(["rank", "correlation"], keep="first", maintain_order=True)
        .select("rank", "correlation", pl.col("row").alias("call"))
    )
    started = rows.filter(kind.is_in(list(schema.DEVICE_KINDS)))
    joined = started.join(calls, on=["rank", "correlation"], how="inner", nulls_equal=True)
    return joined.select("row", "call").sort("row").collect()
