"""Telemetry and steps as one table: a row an interval between two samples, in time order.

A state that is sampled ten times a second does not become ten thousand observations because a
thousand steps ran in each interval: the interval is the unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.telemetry.throttle import HARMLESS

MOST_ROWS: Final = 2000
"""More intervals than this are averaged with their neighbors."""

OLDEST_NS: Final = 2_000_000_000
"""A sample of another source this much older than the interval says nothing of it."""

_LIMITED: Final = 0xFFFF_FFFF & ~int(HARMLESS)

STEP: Final = "step time"
ITL: Final = "inter-token latency"
UNIT: Final = "us"


@dataclass(frozen=True, slots=True)
class Observations:
    """One row an interval: `outcome`, what it worked on, and the state of the machine."""

    table: pl.DataFrame
    outcome: str
    """Name of the column that is to be explained, in microseconds."""
    degradations: tuple[str, ...] = ()


def observe(
    samples: pl.DataFrame, steps: pl.DataFrame | None = None, clock: str = "realtime"
) -> Observations:
    """The intervals of a recording, with the decode steps that ran in them.

    Without steps the outcome is the server's own inter-token latency. `clock` is the one of the
    steps' `start_ns`.
    """
    if clock not in ("realtime", "monotonic"):
        raise InputError(
            f'clock: expected realtime or monotonic, got "{clock}"',
            "a trace on another clock cannot be joined with samples",
        )
    at = f"{clock}_ns"
    notes: list[str] = []
    parts = {"gpu": _gpu(samples, at), "host": _host(samples, at), "engine": _engine(samples, at)}
    for name, part in parts.items():
        if not part.height:
            notes.append(f"telemetry has no samples of the {name}")
    if steps is None:
        base = parts["engine"].select("at")
        outcome = ITL
    else:
        fullest = max(parts.values(), key=lambda part: part.height)
        base = fullest.select("at")
        outcome = STEP
    if not base.height:
        raise InputError("telemetry: expected samples over the time of the outcome, got none")
    table = base
    if steps is not None:
        table = table.join(_steps(steps, base), on="at", how="left")
    for part in parts.values():
        if part.height:
            table = table.join_asof(part, on="at", tolerance=OLDEST_NS, coalesce=True)
    if outcome not in table.columns or not table[outcome].count():
        raise InputError(f"telemetry: expected intervals with {outcome}, got none")
    return Observations(_thinned(table), outcome, tuple(notes))


def _gpu(samples: pl.DataFrame, at: str) -> pl.DataFrame:
    """The worst of the GPUs at each moment: one tick of a source has one time."""
    rows = samples.filter(pl.col("source").is_in(["nvidia", "amd"]))
    limited = (pl.col("gpu_throttle") & pl.lit(_LIMITED)) != 0
    return (
        rows.group_by(pl.col(at).alias("at"))
        .agg(
            limited.max().cast(pl.Float64).alias("throttling"),
            pl.col("gpu_sm_clock_hz").min().alias("sm_clock"),
            pl.col("gpu_power_watts").max().alias("power"),
            pl.col("gpu_temperature_celsius").max().alias("temperature"),
            (pl.col("gpu_processes") > 1).max().cast(pl.Float64).alias("neighbor"),
        )
        .sort("at")
    )


def _host(samples: pl.DataFrame, at: str) -> pl.DataFrame:
    rows = samples.filter(pl.col("source") == "host").sort(at)
    return rows.select(
        pl.col(at).alias("at"),
        pl.col("host_cpu_steal").alias("steal"),
        pl.col("host_pressure_cpu").alias("cpu_pressure"),
        pl.col("host_cpu_utilization").alias("cpu_load"),
        pl.col("cgroup_throttled_seconds").diff().clip(0.0).alias("cgroup_throttled"),
    )


def _engine(samples: pl.DataFrame, at: str) -> pl.DataFrame:
    """Gauges of the engine, and what its counters grew by since the sample before."""
    rows = samples.filter(pl.col("source").is_in(["engine", "endpoint"]))
    # One engine: where a process and its endpoint are both sampled, the endpoint has more.
    for source in ("endpoint", "engine"):
        if (chosen := rows.filter(pl.col("source") == source)).height:
            rows = chosen
            break
    named = rows.sort(at).with_columns(
        tokens=_grown("engine_generation_tokens"),
        prompts=_grown("engine_prompt_tokens"),
        preempted=_grown("engine_preemptions"),
        waited=_grown("engine_itl_seconds_sum"),
        counted=_grown("engine_itl_seconds_count"),
    )
    latency = pl.when(pl.col("counted") > 0).then(1e6 * pl.col("waited") / pl.col("counted"))
    return named.select(
        pl.col(at).alias("at"),
        latency.alias(ITL),
        pl.col("engine_requests_running").alias("running"),
        pl.col("engine_requests_waiting").alias("waiting"),
        pl.col("engine_kv_cache_usage").alias("kv_usage"),
        pl.col("tokens").alias("tokens"),
        pl.col("prompts").alias("prompt_tokens"),
        (pl.col("preempted") > 0).cast(pl.Float64).alias("preempted"),
    )


def _grown(counter: str) -> Any:
    """Growth since the last sample; a counter that fell was started anew."""
    return pl.col(counter).diff().clip(0.0)


def _steps(steps: pl.DataFrame, base: pl.DataFrame) -> pl.DataFrame:
    """Means of the steps of each sample: those with no newer one before their middle.

    The same as `assay.observe.telemetry.reading.during`: a sample holds until the next.
    """
    times = base["at"].to_numpy()
    middle = (steps["start_ns"] + steps["dur_ns"] // 2).to_numpy()
    place = np.searchsorted(times, middle, side="right") - 1
    held = times[np.maximum(place, 0)]
    placed = steps.with_columns(
        at=pl.Series(held), _held=pl.Series((place >= 0) & (middle - held <= OLDEST_NS))
    ).filter("_held")
    is_decode = pl.col("phase").cast(pl.String).fill_null("decode") == "decode"
    length = pl.col("dur_ns").cast(pl.Float64)
    return placed.group_by("at").agg(
        (length.filter(is_decode).mean() / 1e3).alias(STEP),
        pl.col("batch").filter(is_decode).mean().cast(pl.Float64).alias("batch"),
        pl.col("context").filter(is_decode).mean().cast(pl.Float64).alias("context"),
        (length.filter(~is_decode).sum() / length.sum()).alias("prefill_share"),
    )


def _thinned(table: pl.DataFrame) -> pl.DataFrame:
    """Neighbors averaged until there are few enough rows."""
    times = -(-table.height // MOST_ROWS)
    if times <= 1:
        return table
    number = pl.int_range(pl.len()) // times
    return (
        table.group_by(number.alias("_group"), maintain_order=True)
        .agg(pl.all().mean())
        .drop("_group")
    )
