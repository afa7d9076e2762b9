"""The critical path of a trace as a table: every moment belongs to one event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.diagnose.critical_path.slack import slack
from assay.diagnose.critical_path.threads import Threads
from assay.diagnose.critical_path.walk import PARTS, Path, walk
from assay.diagnose.replay.columns import Columns
from assay.diagnose.replay.edges import dependencies
from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.observe.trace import Trace

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")


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


def _slack_table(rows: NDArray[np.int64], values: NDArray[np.int64]) -> pl.DataFrame:
    return pl.DataFrame(
        {"row": pl.Series(rows, dtype=pl.Int64), "slack_ns": pl.Series(values, dtype=pl.Int64)}
    )
