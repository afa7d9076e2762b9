"""Faults of a known size, planted into a trace: what comes after them moves.

The trace is edited as an engine would have written it: host and device events from a moment on are
shifted, events over that moment are lengthened, and the event that caused the delay is inserted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from assay.observe import schema
from assay.observe.trace import Trace

ON_DEVICE = pl.col("kind").is_in(list(schema.DEVICE_KINDS))


@dataclass(frozen=True)
class Place:
    """An event that a device waited for, and its launch."""

    step: int
    start_ns: int
    """Of the device event."""
    idle_from_ns: int
    """When the device fell idle before it."""
    call_start_ns: int
    """Of its launch."""
    pid: int
    tid: int
    stream: int
    device: int
    rank: int | None


def late_places(trace: Trace, opening: bool = False) -> list[Place]:
    """Kernels inside decode steps that were launched after the device fell idle.

    With `opening` those that begin a step instead.
    """
    where = pl.col("opens") if opening else pl.col("layer").is_not_null() & ~pl.col("opens")
    return _places(trace, where & (pl.col("call_start") > pl.col("idle_from")))


def queued_places(trace: Trace) -> list[Place]:
    """Kernels that prepare the inputs of a decode step, launched while the device was busy."""
    where = pl.col("op").cast(pl.String) == "prepare_inputs"
    return _places(trace, where & (pl.col("call_start") <= pl.col("idle_from")))


def _places(trace: Trace, where: pl.Expr) -> list[Place]:
    events = trace.events.with_columns(end=pl.col("start_ns") + pl.col("dur_ns"))
    device = events.filter(ON_DEVICE).sort("start_ns")
    device = device.with_columns(
        idle_from=pl.col("end").cum_max().shift(1), opens=pl.col("step") != pl.col("step").shift(1)
    )
    calls = events.filter((pl.col("kind") == "api") & pl.col("correlation").is_not_null())
    joined = device.join(
        calls.select("correlation", call_start="start_ns", call_pid="pid", call_tid="tid").unique(
            "correlation"
        ),
        on="correlation",
    ).filter(
        (pl.col("kind") == "kernel")
        & (pl.col("phase") == "decode")
        & (pl.col("start_ns") > pl.col("idle_from"))
        & (pl.col("call_start") < pl.col("start_ns"))
        & where
    )
    names = ("step", "start_ns", "idle_from", "call_start", "call_pid", "call_tid", "stream",
             "device", "rank")  # fmt: skip
    return [Place(*row) for row in joined.sort("start_ns").select(names).rows()]


def shifted(trace: Trace, moment: int, by: int) -> Trace:
    """What begins at a moment or later is later; what goes on then takes longer."""

    def moved(table: pl.DataFrame) -> pl.DataFrame:
        begins = pl.col("start_ns") >= moment
        over = ~begins & (pl.col("start_ns") + pl.col("dur_ns") > moment)
        return table.with_columns(
            start_ns=pl.col("start_ns") + pl.when(begins).then(by).otherwise(0),
            dur_ns=pl.col("dur_ns") + pl.when(over).then(by).otherwise(0),
        )

    return Trace(trace.header, moved(trace.events), moved(trace.steps))


LATENCY_NS = 5_000
"""From a launch to its kernel on an idle device."""


def launched_late(trace: Trace, place: Place, by: int) -> tuple[Trace, Place]:
    """The launch of a queued kernel, and all that the host does after it, come too late by so much."""
    launch = place.start_ns + by - LATENCY_NS
    host = shifted(trace, place.call_start_ns, launch - place.call_start_ns)
    device = shifted(trace, place.start_ns, by)
    is_device = trace.events.select(ON_DEVICE).to_series()
    events = pl.concat([device.events.filter(is_device), host.events.filter(~is_device)])
    late = replace(place, start_ns=place.start_ns + by, call_start_ns=launch)
    return Trace(trace.header, events, device.steps), late


def inserted(trace: Trace, **event: Any) -> Trace:
    """The trace with one more event, of the columns given."""
    row = schema.complete(
        pl.DataFrame({name: [value] for name, value in event.items()}, strict=False)
    )
    return Trace(trace.header, pl.concat([trace.events, row]), trace.steps)


def stall(trace: Trace, place: Place, by: int) -> Trace:
    """The host does nothing for a while before a launch."""
    return shifted(trace, place.call_start_ns, by)


def synchronization(trace: Trace, place: Place, by: int) -> Trace:
    """The host waits in a call before a launch."""
    return inserted(
        shifted(trace, place.call_start_ns, by),
        kind="sync",
        name="cudaStreamSynchronize",
        start_ns=place.call_start_ns,
        dur_ns=by,
        rank=place.rank,
        pid=place.pid,
        tid=place.tid,
    )


def launch_gap(trace: Trace, place: Place, by: int) -> Trace:
    """A launching call takes longer."""
    return shifted(trace, place.call_start_ns + 1, by)


def copy(trace: Trace, place: Place, by: int) -> Trace:
    """A copy from the host runs before a kernel, on its stream."""
    correlation = int(trace.events["correlation"].max() or 0) + 1  # type: ignore[call-overload]
    late = inserted(
        shifted(trace, place.start_ns, by),
        kind="memcpy",
        name="Memcpy HtoD (Pageable -> Device)",
        start_ns=place.start_ns,
        dur_ns=by,
        rank=place.rank,
        device=place.device,
        stream=place.stream,
        pid=place.device,
        correlation=correlation,
        step=place.step,
        op="prepare_inputs",
    )
    return inserted(
        late,
        kind="api",
        name="cudaMemcpyAsync",
        start_ns=place.call_start_ns - 2,
        dur_ns=1,
        rank=place.rank,
        pid=place.pid,
        tid=place.tid,
        correlation=correlation,
    )


def slowed(trace: Trace, operation: str, factor: float) -> Trace:
    """Every kernel of an operation takes longer, and all that comes after it is later."""
    events = trace.events.sort("start_ns", maintain_order=True)
    is_slow = ON_DEVICE & (pl.col("op").cast(pl.String) == operation)
    extra = pl.when(is_slow.fill_null(False)).then((pl.col("dur_ns") * (factor - 1)).cast(pl.Int64))
    events = events.with_columns(extra=extra.fill_null(0))
    before = events["start_ns"].to_numpy()
    later = events["extra"].cum_sum().to_numpy() - events["extra"].to_numpy()
    events = events.with_columns(
        start_ns=pl.col("start_ns") + pl.Series(later), dur_ns=pl.col("dur_ns") + pl.col("extra")
    ).drop("extra")
    at = np.searchsorted(before, trace.steps["start_ns"].to_numpy())
    steps = trace.steps.with_columns(start_ns=pl.col("start_ns") + pl.Series(later[at]))
    return Trace(trace.header, events, steps)


PLANTED = {
    "host_stalls": stall,
    "synchronization": synchronization,
    "launch_gaps": launch_gap,
    "lost_overlap": copy,
}
"""Faults by the term they must land in."""
