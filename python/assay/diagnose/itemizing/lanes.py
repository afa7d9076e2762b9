"""The steps of each device as windows of wall time, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.array_types import Ints
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema

if TYPE_CHECKING:
    from assay.observe.trace import Trace


KEYS = ("rank", "pid", "device")
"""What tells one lane from another: -1 where the trace does not say."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The steps of one process on one device.

    A step lasts from its first kernel (or copy) on the device to that of the next step, so that
    windows neither overlap nor leave time out: their length is the time per token that a user
    sees. The last one ends with its own last event.
    """

    key: tuple[int, int, int]
    """Rank, process and device."""
    steps: pl.DataFrame
    """Rows of the trace's table of steps, in order of time."""
    edges: Ints
    """Start of each step, and the end of the last."""


def device_events(trace: Trace) -> pl.DataFrame:
    """Kernels, copies and fills with the row of the event table, keys filled with -1."""
    used = ("kind", "name", "start_ns", "stream", "correlation", "graph", "step", "layer",
            "op", "args")  # fmt: skip
    return (
        trace.events.lazy()
        .with_row_index("row")
        .filter(pl.col("kind").is_in(list(schema.DEVICE_KINDS)) & pl.col("start_ns").is_not_null())
        .select(
            pl.col("row").cast(pl.Int64),
            *used,
            # A damaged file may hold events that end before they begin, or never.
            pl.col("dur_ns").fill_null(0).clip(0),
            *(pl.col(name).cast(pl.Int64).fill_null(-1) for name in KEYS),
        )
        .collect()
    )


def find_lanes(trace: Trace, device: pl.DataFrame) -> list[Lane]:
    """The lanes of a trace whose steps are known."""
    if not device.height:
        raise InputError(
            "residuals: expected a trace with kernels, got none",
            "the device was not traced, or the file holds host events only",
        )
    if not trace.steps.height or device["step"].null_count() == device.height:
        raise InputError(
            "residuals: expected a trace with steps, got none",
            "assay.observe.structure.recovery.recover finds the steps of a foreign trace",
        )
    first = (
        device.filter(pl.col("step").is_not_null())
        .group_by(*KEYS, "step")
        .agg(
            first_ns=pl.col("start_ns").min(),
            first_kernel_ns=pl.col("start_ns").filter(pl.col("kind") == "kernel").min(),
            last_ns=(pl.col("start_ns") + pl.col("dur_ns")).max(),
        )
    )
    steps = trace.steps.with_columns(
        pl.col("rank").cast(pl.Int64).fill_null(-1).alias("rank"), table_start_ns=pl.col("start_ns")
    )
    joined = first.join(steps, on=["rank", "step"], how="inner")
    # Several devices of one rank have steps of the same number: each has its own start.
    joined = (
        joined.with_columns(away=(pl.col("first_ns") - pl.col("table_start_ns")).abs())
        .sort("away")
        .unique([*KEYS, "step"], keep="first", maintain_order=True)
        .drop("away")
    )
    # The own engine's table says when the host began a step, ahead of the device.
    started = (
        pl.when(pl.col("source").cast(pl.String) == "engine")
        .then(pl.coalesce("first_kernel_ns", "first_ns"))
        .otherwise(pl.col("first_ns"))
    )
    joined = joined.with_columns(begin_ns=started)
    lanes = []
    for key, part in joined.group_by(*KEYS, maintain_order=True):
        rows = part.sort("begin_ns", "step").unique("begin_ns", keep="first", maintain_order=True)
        end = int(rows.select(pl.max_horizontal("last_ns", _end()).max()).item())
        begin = rows["begin_ns"].to_numpy()
        lanes.append(
            Lane(
                (int(key[0]), int(key[1]), int(key[2])),
                rows.select(*schema.step_columns()),
                np.append(begin, max(end, int(begin[-1]) + 1)).astype(np.int64),
            )
        )
    return sorted(lanes, key=lambda lane: lane.key)


def _end() -> pl.Expr:
    return pl.col("table_start_ns") + pl.col("dur_ns")
