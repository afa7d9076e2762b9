"""One lane of a trace, cut into disjoint intervals of one term each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.array_types import Flags, Ints
from assay.diagnose.itemizing import gaps, intervals, kernels
from assay.diagnose.itemizing.clocks import Clocks
from assay.diagnose.itemizing.host_activity import ANY_THREAD, Spans, host_activity
from assay.diagnose.itemizing.kernels import DeviceEvents, Pieces, Prediction
from assay.diagnose.itemizing.lanes import Lane
from assay.diagnose.itemizing.profiler_cost import record_cost
from assay.diagnose.terms import TERMS
from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.observe.trace import Trace
    from assay.planner.graph import Graph


NOTED: Final = 0.001
"""Share of the time from which on a lack is worth a note."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A lane: its intervals, and what the tables are made from."""

    lane: Lane
    intervals: pl.DataFrame
    events: DeviceEvents
    prediction: Prediction
    matched: Mapping[int, int]
    """The graph of each step that has one."""
    notes: tuple[str, ...]


def decompose(
    trace: Trace,
    device: pl.DataFrame,
    lane: Lane,
    graphs: Sequence[Graph],
    matched: Mapping[int, int],
    clocks: Clocks,
) -> Decomposition:
    """Cut the windows of a lane's steps into intervals of one term each."""
    rank, pid, number = lane.key
    is_own = (pl.col("rank") == rank) & (pl.col("pid") == pid) & (pl.col("device") == number)
    mine = device.filter(is_own).sort("start_ns", "row")
    others = device.filter(
        ~is_own & (pl.col("rank") == rank) & (pl.col("device") == number) & (pl.col("pid") != pid)
    )
    events = kernels.device_arrays(mine)
    start, end, owner = intervals.owners(kernels.levels(events), lane.edges)
    window = np.searchsorted(lane.edges, start, side="right") - 1
    busy = np.flatnonzero(owner >= 0)
    prediction = Prediction(events.operations, graphs, matched)
    work = kernels.split(
        start[busy], end[busy], owner[busy], events, prediction, clocks.share[window[busy]]
    )
    idle_gaps = _gaps(start, end, owner, lane.edges)
    host = host_activity(trace, lane.key, mine)
    operations = np.array([_is_host(name) for name in events.operations], bool)
    idle = gaps.classify(
        idle_gaps,
        gaps.DeviceSide(events.correlation, events.stream, events.operation, operations),
        host,
        _spans(others),
    )
    frame = _frame(lane, events, prediction, work, idle, idle_gaps)
    notes = [*_notes(frame, events, prediction, matched)]
    if clocks.note:
        notes.append(clocks.note)
    recording = int(frame.filter(pl.col("term") == "profiler_overhead")["dur_ns"].sum())
    cost = record_cost(trace)
    if cost is not None and recording > NOTED * int(frame["dur_ns"].sum()):
        notes.append(
            f"profiler_overhead is an estimate within a factor of two: {cost.operation_ns:,} ns an "
            f"operation and {cost.call_ns:,} ns a call recorded while the device waited, as "
            f"measured of {cost.source}"
        )
    if not host.has_calls and not len(host.sections):
        notes.append("no calls of the host in the trace: why the device idles is not known")
    return Decomposition(lane, frame, events, prediction, matched, tuple(notes))


def _is_host(operation: str) -> bool:
    return operation in gaps.HOST_OPERATIONS


def _spans(events: pl.DataFrame) -> Spans:
    start = events["start_ns"].to_numpy()
    return Spans(
        start,
        start + events["dur_ns"].to_numpy(),
        events["row"].to_numpy(),
        np.full(len(start), ANY_THREAD),
    )


def _gaps(start: Ints, end: Ints, owner: Ints, edges: Ints) -> gaps.Gaps:
    place = np.flatnonzero(owner < 0)
    around = np.concatenate([[-1], owner, [-1]])
    return gaps.Gaps(
        start[place], end[place], around[place], around[place + 2], np.isin(end[place], edges)
    )


def _frame(
    lane: Lane,
    events: DeviceEvents,
    prediction: Prediction,
    work: Pieces,
    idle: gaps.Idle,
    idle_gaps: gaps.Gaps,
) -> pl.DataFrame:
    """Work and idle time as one table, in order of time."""
    waited = idle_gaps.after[idle.gap]
    event = np.concatenate([work.event, waited])
    count = len(work.start)
    start = np.concatenate([work.start, idle.start])
    order = np.argsort(start, kind="stable")
    is_gap = (np.arange(len(start)) >= count)[order]
    event = event[order]
    start = start[order]
    end = np.concatenate([work.end, idle.end])[order]
    term = np.concatenate([work.term, idle.term])[order]
    cause = np.concatenate([np.full(count, -1), idle.cause])[order]
    known = np.maximum(event, 0)
    site = np.where(event >= 0, prediction.site_codes[events.operation[known]], -1)
    window = np.searchsorted(lane.edges, start, side="right") - 1
    numbers = lane.steps["step"].to_numpy()

    def nullable(values: Ints, keep: Flags, kind: pl.DataType | type) -> pl.Series:
        return pl.select(
            pl.when(pl.Series(keep)).then(pl.Series(values)).otherwise(None).cast(kind)
        ).to_series()

    layer = np.where(event >= 0, events.layer[known], -1)
    return pl.DataFrame(
        {
            "step": numbers[window],
            "rank": nullable(
                np.full(len(start), lane.key[0]), start * 0 + lane.key[0] >= 0, pl.Int32
            ),
            "device": nullable(
                np.full(len(start), lane.key[2]), start * 0 + lane.key[2] >= 0, pl.Int32
            ),
            "term": _texts(term, list(TERMS), pl.Enum(list(TERMS))),
            "start_ns": start,
            "dur_ns": end - start,
            "row": nullable(events.row[known], ~is_gap & (event >= 0), pl.Int64),
            "operation": _texts(site, list(prediction.names), pl.Categorical()),
            "layer": nullable(layer, layer >= 0, pl.Int32),
            "cause": nullable(cause, cause >= 0, pl.Int64),
        }
    )


def _texts(codes: Ints, names: list[str], kind: pl.DataType) -> pl.Series:
    """Codes as text, null where negative."""
    if not names:
        return pl.Series([None] * len(codes), dtype=kind)
    table = pl.Series(names, dtype=pl.String).cast(kind)
    code = pl.Series(codes)
    return table.gather(code.set(code < 0, None).cast(pl.UInt32))


def _notes(
    frame: pl.DataFrame, events: DeviceEvents, prediction: Prediction, matched: Mapping[int, int]
) -> list[str]:
    """Which kernels have no operation, and which operations no node."""
    total = int(frame["dur_ns"].sum()) or 1
    notes = []
    busy = frame.filter(pl.col("row").is_not_null())
    unmapped = int(busy.filter(pl.col("operation").is_null())["dur_ns"].sum())
    if unmapped > NOTED * total:
        notes.append(
            f"{100 * unmapped / total:.1f} % of the time is kernels of no known operation: unknown"
        )
    predicted = {name for graph in prediction.by_graph for name, _ in graph}
    absent = [name for name in prediction.names if name not in predicted]
    share = (
        busy.filter(
            pl.col("operation").is_in(absent)
            & pl.col("step").is_in(list(matched))
            & (pl.col("term") == "kernel_inefficiency")
        )
        .group_by(pl.col("operation").cast(pl.String))
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", descending=True)
        .filter(pl.col("dur_ns") > NOTED * total)
    )
    if share.height:
        listed = ", ".join(f"{name} ({100 * ns / total:.1f} %)" for name, ns in share.rows())
        notes.append(
            f"the graph has no node for {listed}: their whole time counts as above the floor"
        )
    return notes
