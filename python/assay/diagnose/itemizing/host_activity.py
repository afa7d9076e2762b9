"""What the host did while a device idled: launch calls, blocking calls, sections, the profiler."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.array_types import Flags, Ints
from assay.diagnose.itemizing.profiler_cost import RecordCost, record_cost
from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.observe.trace import Trace


ANY_THREAD: Final = -1
"""The thread of a call whose record does not say."""

_STREAM_WAIT: Final = re.compile(r"WaitEvent|Stream Wait")
_COPY: Final = re.compile(r"^(?:cuda|cu|hip)Memcpy")
_LAUNCH_SECTION: Final = "launch"
_ENGINE: Final = "engine"


@dataclass(frozen=True, slots=True)
class Spans:
    """Intervals of host time with the row of the event table and the thread."""

    start: Ints
    end: Ints
    row: Ints
    thread: Ints

    def __len__(self) -> int:
        return len(self.start)

    def of_thread(self, thread: int) -> Spans:
        """Those of one thread; of every thread where it is not known."""
        if thread == ANY_THREAD:
            return self
        return self.where((self.thread == thread) | (self.thread == ANY_THREAD))

    def where(self, keep: Flags) -> Spans:
        """Those that are kept."""
        return Spans(self.start[keep], self.end[keep], self.row[keep], self.thread[keep])


@dataclass(frozen=True, slots=True)
class Calls:
    """The launch of each device event; -1 where the trace has none."""

    start: Ints
    end: Ints
    row: Ints
    thread: Ints


@dataclass(frozen=True, slots=True)
class HostActivity:
    """The host beside one lane."""

    calls: Calls
    """One entry a device event."""
    blocking: Spans
    """Calls that return only when the device has come so far, and waits of the own engine."""
    profiler: Spans
    """Records of the profiler about itself."""
    sections: Spans
    """Sections of the own engine's step."""
    is_launch: Flags
    """Whether a section launches."""
    begins: Ints
    """When operations and calls of the host begin, in order."""
    record_ns: Ints
    """What the profiler spends on the record of each, 0 where that is not known."""
    has_calls: bool
    """Whether the trace has any launch calls at all."""


def host_activity(trace: Trace, key: tuple[int, int, int], device: pl.DataFrame) -> HostActivity:
    """What the trace has of the host for a lane, whose device events are given."""
    rank, pid, _ = key
    events = (
        trace.events.lazy()
        .with_row_index("row")
        .filter(
            pl.col("kind").is_in(["api", "sync", "overhead"])
            | ((pl.col("kind") == "host") & (pl.col("category") == _ENGINE))
        )
        .filter((pl.col("rank").fill_null(rank) == rank) & pl.col("start_ns").is_not_null())
        .select(
            pl.col("row").cast(pl.Int64),
            pl.col("kind").cast(pl.String),
            pl.col("name").cast(pl.String).fill_null(""),
            "start_ns",
            (pl.col("start_ns") + pl.col("dur_ns").fill_null(0).clip(0)).alias("end_ns"),
            "correlation",
            pl.col("pid").fill_null(-1),
            pl.col("tid").fill_null(-1),
            pl.col("device").is_not_null().alias("on_device"),
        )
        .collect()
    )
    # Where device events name their process, only its calls count; Kineto's name the device.
    if pid >= 0 and (events["pid"] == pid).any():
        events = events.filter((pl.col("pid") == pid) | (pl.col("kind") == "overhead"))
    events = events.with_columns(thread=_threads())
    names = events["name"].unique()
    waits = [name for name in names if is_blocking(name)]
    stream_waits = [name for name in names if _STREAM_WAIT.search(name)]
    blocking = events.filter(
        (
            ((pl.col("kind") == "sync") & ~pl.col("name").is_in(stream_waits))
            | ((pl.col("kind") == "api") & pl.col("name").is_in(waits))
        )
        # CUPTI also records waits as seen by the device, on streams.
        & ~pl.col("on_device")
    )
    sections = events.filter(pl.col("kind") == "host").sort("start_ns")
    api = events.filter(
        pl.col("kind").is_in(["api", "sync"]) & (pl.col("correlation") > 0)
        | ((pl.col("kind") == "api") & (pl.col("correlation") == 0))
    )
    return HostActivity(
        _calls(api, device),
        _spans(blocking),
        _spans(events.filter(pl.col("kind") == "overhead")),
        _spans(sections),
        (sections["name"] == _LAUNCH_SECTION).to_numpy(),
        *_records(trace, rank, record_cost(trace)),
        api.height > 0,
    )


def _records(trace: Trace, rank: int, cost: RecordCost | None) -> tuple[Ints, Ints]:
    """When records of the host begin, and what each costs it."""
    host = (
        trace.events.lazy()
        .filter(
            pl.col("kind").is_in(["api", "sync", "host"])
            & (pl.col("rank").fill_null(rank) == rank)
            & pl.col("start_ns").is_not_null()
        )
        .select("start_ns", is_call=pl.col("kind") != "host")
        .sort("start_ns")
        .collect()
    )
    operation, call = (cost.operation_ns, cost.call_ns) if cost else (0, 0)
    spent = np.where(host["is_call"].to_numpy(), call, operation).astype(np.int64)
    return host["start_ns"].to_numpy(), spent


def is_blocking(name: str) -> bool:
    """Whether a call of a GPU's runtime returns only when the device has come so far.

    >>> [is_blocking(name) for name in ("cudaMemcpy", "cudaMemcpyAsync", "cuStreamSynchronize")]
    [True, False, True]
    """
    if _COPY.search(name):
        return "Async" not in name
    return "Synchronize" in name


def _threads() -> pl.Expr:
    """A number for each thread; `ANY_THREAD` where the record does not say."""
    number = pl.struct("pid", "tid").rank("dense").cast(pl.Int64)
    return pl.when(pl.col("tid") >= 0).then(number).otherwise(ANY_THREAD)


def _spans(events: pl.DataFrame) -> Spans:
    return Spans(
        *(
            events[name].cast(pl.Int64).to_numpy()
            for name in ("start_ns", "end_ns", "row", "thread")
        )
    )


def _calls(api: pl.DataFrame, device: pl.DataFrame) -> Calls:
    by_correlation = api.group_by("correlation").agg(
        call_start=pl.col("start_ns").min(),
        call_end=pl.col("end_ns").max(),
        call_row=pl.col("row").min(),
        thread=pl.col("thread").first(),
    )
    joined = device.select("correlation").join(
        by_correlation, on="correlation", how="left", maintain_order="left"
    )
    return Calls(
        *(
            joined[name].fill_null(-1).to_numpy()
            for name in ("call_start", "call_end", "call_row", "thread")
        )
    )
