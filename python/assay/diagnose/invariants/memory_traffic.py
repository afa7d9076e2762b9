"""Device memory moves the bytes that the prediction counts, by an independent measurement.

The bytes of a trace's events are the engine's own arithmetic and no measurement. What counts is
GPM's bandwidth in telemetry, or DRAM counters that a profiler wrote into the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.diagnose.residuals import Residuals
from assay.diagnose.violation import Invariant, Violation
from assay.diagnose.waterfall import of_interest
from assay.lazy_import import pl
from assay.planner.graph import Graph

NAME = "memory traffic"
COUNTERS: Final = ("dram__bytes_read.sum", "dram__bytes_write.sum")
"""Counters of Nsight Compute and of Kineto's range profiler, in the args of a kernel."""
FEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes a step, with the standard error of the mean."""

    mean: float
    error: float
    source: str


def check(residuals: Residuals) -> list[Violation]:
    """Compare measured bytes a step with the graph's."""
    lo, hi = bounds(residuals.graph)
    measured = counters(residuals) or gpm(residuals)
    if measured is None or hi <= 0:
        reason = (
            "needs GPM (gpu_dram_bytes_per_second of telemetry) or DRAM counters of a profiler"
            if hi > 0
            else "the prediction counts no bytes"
        )
        low, high = (lo, hi) if hi > 0 else (None, None)
        return [Violation(NAME, "not measured", "step", None, low, high, "byte", reason=reason)]
    # Twice the error of the mean: the interval of the prediction is widened by the measurement's.
    lo, hi = lo - 2 * measured.error, hi + 2 * measured.error
    if lo <= measured.mean <= hi:
        return []
    away = "more" if measured.mean > hi else "fewer"
    return [
        Violation(
            NAME, "violated", "step", measured.mean, lo, hi, "byte",
            reason=f"{away} bytes a step than predicted, by {measured.source}",
        )
    ]  # fmt: skip


def bounds(graph: Graph) -> tuple[float, float]:
    """What a step must move at least, and at most.

    At least: what nodes bound by memory read, which streams through the caches. At most: all that
    every node reads and writes, nothing kept in caches between them.
    """
    nodes = [node for node in graph.nodes if node.stream >= 0]
    least = sum(node.bytes_read for node in nodes if node.bound == "memory")
    most = sum(node.bytes_read + node.bytes_written for node in nodes)
    total = graph.totals.get("bytes")
    return least, max(most, total.hi if total else 0.0)


def counters(residuals: Residuals) -> Measured | None:
    """Bytes that DRAM counters in the args of kernels add up to, a step."""
    events = residuals.trace.events.lazy().with_row_index("row").select("row", "args")
    counted_events = events.filter(pl.col("args").str.contains("dram__bytes", literal=True))
    values = [
        pl.col("args").str.extract(rf'"{name.replace(".", chr(92) + ".")}"\s*:\s*"?([0-9.eE+]+)')
        .cast(pl.Float64, strict=False)
        .fill_null(0.0)
        for name in COUNTERS
    ]  # fmt: skip
    counted = counted_events.select(
        pl.col("row").cast(pl.Int64), bytes=values[0] + values[1]
    ).collect()
    if not counted.height:
        return None
    steps = of_interest(residuals.steps).select("rank", "device", "step")
    sums = (
        residuals.kernels.join(counted, on="row")
        .join(steps, on=["rank", "device", "step"], how="semi", nulls_equal=True)
        .group_by("rank", "device", "step")
        .agg(pl.col("bytes").sum())["bytes"]
        .to_numpy()
    )
    return _mean(sums, "DRAM counters of the profiler") if len(sums) else None


def gpm(residuals: Residuals) -> Measured | None:
    """Bytes a step from the bandwidth that GPM shows during the steps."""
    samples = residuals.telemetry
    clock = residuals.trace.header.clock
    if samples is None or clock not in ("realtime", "monotonic"):
        return None
    steps = of_interest(residuals.steps)
    # A sample is the mean over the interval before it, which must lie within the steps.
    first = int(steps["start_ns"].to_numpy().min())
    last = int((steps["start_ns"] + steps["observed_ns"]).to_numpy().max())
    known = (
        samples.filter(pl.col("gpu_dram_bytes_per_second").is_not_null())
        .sort(f"{clock}_ns")
        .with_columns(before=pl.col(f"{clock}_ns").shift(1).over("device"))
        .filter((pl.col("before") >= first) & (pl.col(f"{clock}_ns") <= last))
    )
    if known.height < FEWEST:
        return None
    seconds = float(np.mean(steps["observed_ns"].to_numpy())) / 1e9
    return _mean(known["gpu_dram_bytes_per_second"].to_numpy() * seconds, "GPM")


def _mean(values: np.ndarray, source: str) -> Measured:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Measured(float(np.mean(values)), spread / float(np.sqrt(len(values))), source)


MEMORY_TRAFFIC = Invariant(
    NAME, "device memory moves the predicted bytes a step, measured independently", check
)
