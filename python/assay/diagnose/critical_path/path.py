"""The critical path of a trace as a table: every moment belongs to one event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.array_types import Ints
from assay.diagnose.critical_path.threads import Threads
from assay.diagnose.critical_path.walk import PARTS, Path, walk
from assay.diagnose.replay.columns import Columns
from assay.diagnose.replay.edges import FROM_START, TO_END, Edges, dependencies
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.trace import Trace


def slack(start: Ints, end: Ints, edges: Edges, horizon: int) -> Ints:
    """The slack of every event that takes part in an edge: what may not end later is `horizon`.

    Starts and ends are points of a graph: what bounds one point bounds those before it, less the
    delay between them. A delay is the one that was observed, where the edge decided, and the usual
    one of its kind elsewhere. Zero for events without edges.
    """
    count = len(start)
    from_start, to_end = np.isin(edges.kind, FROM_START), np.isin(edges.kind, TO_END)
    work = end - start
    work[edges.rows] = edges.work_ns
    # Points: starts, then ends. An event's own time is an edge, too.
    source = np.concatenate((np.where(from_start, edges.src, edges.src + count), edges.rows))
    target = np.concatenate((np.where(to_end, edges.dst + count, edges.dst), edges.rows + count))
    delay = np.concatenate((edges.lag_ns, work[edges.rows]))
    moment = np.concatenate((start, end))
    # Kernels of one stream may overlap: the end of one is bounded by the start of the next.
    np.minimum.at(moment, source, moment[target])
    began = np.concatenate((start, start))
    order = np.lexsort((-target, _turn(count, edges)[target], -began[target], -moment[target]))
    # What the host does after the last device event delays nothing.
    late = np.maximum(np.concatenate((start, end)), horizon).tolist()
    for before, after, lag in zip(
        source[order].tolist(), target[order].tolist(), delay[order].tolist(), strict=True
    ):
        allowed = late[after] - lag
        if allowed < late[before]:
            late[before] = allowed
    slack_ns = np.maximum(np.array(late[count:], np.int64) - end, 0)
    taking_part = np.zeros(count, bool)
    taking_part[edges.rows] = True
    return np.where(taking_part, slack_ns, 0)


def _turn(count: int, edges: Edges) -> Ints:
    """Of points at one moment: the end of a call that waits, ends, starts, starts of callers."""
    turn = np.repeat(np.array([2, 1], np.int64), count)
    turn[edges.dst[np.isin(edges.kind, TO_END)] + count] = 0
    turn[edges.src[np.isin(edges.kind, FROM_START)]] = 3
    return turn


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the end of a trace had to wait for, at each moment from its start.

    `segments`: start_ns, dur_ns, part (of `walk.PARTS`), row (null where the trace has no event),
    name, operation, layer, in order and without a hole. `slack`: for each device event its row and
    slack_ns, how much later it could have ended without a later end of the trace.
    """

    segments: pl.DataFrame
    slack: pl.DataFrame
    degradations: tuple[str, ...] = ()

    def between(self, low: int, high: int) -> pl.DataFrame:
        """The segments of some stretch of time, cut at its ends."""
        end = pl.col("start_ns") + pl.col("dur_ns")
        start = pl.max_horizontal("start_ns", pl.lit(low, pl.Int64))
        return self.segments.filter((end > low) & (pl.col("start_ns") < high)).with_columns(
            start.alias("start_ns"),
            (pl.min_horizontal(end, pl.lit(high, pl.Int64)) - start).alias("dur_ns"),
        )


def critical_path(trace: Trace) -> CriticalPath:
    """The critical path from the last device event of a trace back to its first."""
    columns = Columns.of(trace.events)
    rows = np.flatnonzero(columns.is_device)
    if not len(rows):
        raise InputError("critical path: expected kernels or copies on a device, got none")
    notes: list[str] = []
    ranks = trace.events["rank"].drop_nulls().n_unique()
    if ranks > 1:
        notes.append(
            f"critical path: of the rank that ends last; waits between the {ranks} ranks are not "
            "followed"
        )
    edges = dependencies(trace, columns)
    threads = Threads(columns.start, columns.end, columns.thread)
    last = int(rows[np.argmax(columns.end[rows])])
    low = int(columns.start[rows].min())
    segments = walk(columns.start, columns.end, edges, threads, rows, last, low)
    if len(segments.start) and segments.start[0] > low:
        notes.append(
            f"critical path: nothing in the trace says what the event at "
            f"{(int(segments.start[0]) - low) / 1e6:.3f} ms waited for; it begins there"
        )
    if segments.inferred:
        notes.append(
            f"critical path: {segments.inferred:,} device events began long after what the trace shows "
            "them to wait for; they are taken to wait for the work that ended last before them"
        )
    spare = slack(columns.start, columns.end, edges, int(columns.end[last]))
    return CriticalPath(
        _table(trace.events, segments),
        _slack_table(rows, spare[rows]),
        (*edges.degradations, *notes),
    )


def _table(events: pl.DataFrame, path: Path) -> pl.DataFrame:
    row = pl.Series(path.row, dtype=pl.Int64)
    row = row.set(row < 0, None)
    names = events.select("name", pl.col("op").alias("operation"), "layer")
    parts = pl.Series(PARTS, dtype=pl.String).gather(pl.Series(path.part, dtype=pl.UInt32))
    return pl.DataFrame(
        {
            "start_ns": pl.Series(path.start, dtype=pl.Int64),
            "dur_ns": pl.Series(path.end - path.start, dtype=pl.Int64),
            "part": parts.cast(pl.Categorical()),
            "row": row,
        }
    ).hstack(names.select(pl.all().gather(row.cast(pl.UInt32))))


def _slack_table(rows: Ints, values: Ints) -> pl.DataFrame:
    return pl.DataFrame(
        {"row": pl.Series(rows, dtype=pl.Int64), "slack_ns": pl.Series(values, dtype=pl.Int64)}
    )
