"""Recordings of telemetry beside steps, with effects of known size in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import simulated_effects

from assay.observe.telemetry import reading

START_NS = 1_700_000_000_000_000_000
PERIOD_NS = 100_000_000


def as_samples(rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = reading.columns()
    return pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], schema=columns)


def throttled_run(
    seed: int, *, effect_us: float, count: int = 400
) -> tuple[pl.DataFrame, pl.DataFrame, float]:
    """Samples, steps and the share of throttled intervals: a load that throttles and slows steps."""
    random = np.random.default_rng(seed)
    load = simulated_effects.slow(random, count, 0.9)[:, 0]
    batch = np.clip(np.round(32 + 12 * load), 1, None)
    push = simulated_effects.slow(random, count, 0.8)[:, 0] + 0.5 * random.standard_normal(count)
    limited = (load + push) > 0.8
    rows, steps, now = [], [], START_NS
    for number in range(count):
        begin = START_NS + number * PERIOD_NS
        rows.append(
            {
                "realtime_ns": begin, "monotonic_ns": begin - START_NS, "tick": number,
                "source": "nvidia", "device": "gpu-0", "index": 0,
                # Idle is a harmless bit; the power cap is not.
                "gpu_throttle": 4 if limited[number] else 1,
                "gpu_sm_clock_hz": 1.6e9 if limited[number] else 1.98e9, "gpu_processes": 1,
            }
        )  # fmt: skip
        while now < begin + PERIOD_NS:
            # 50 us of a step for each sequence: the load is a common cause.
            took = 5e6 + 50e3 * batch[number] + 1e3 * effect_us * limited[number]
            length = int(took + random.normal(0, 1e5))
            steps.append((len(steps), "decode", now, length, int(batch[number]), 300, 0))
            now += length
    names = ["step", "phase", "start_ns", "dur_ns", "batch", "context", "prefill_tokens"]
    return as_samples(rows), pl.DataFrame(steps, schema=names, orient="row"), float(limited.mean())


def server_run(seed: int, *, effect_us: float, count: int = 400) -> pl.DataFrame:
    """Scrapes of a server whose tokens are late while requests wait, beside a host without news."""
    random = np.random.default_rng(seed)
    running = np.clip(np.round(16 + 5 * simulated_effects.slow(random, count, 0.9)[:, 0]), 1, None)
    waiting = np.clip(np.round(2 * simulated_effects.slow(random, count, 0.7)[:, 0]), 0, None)
    rows, spent, made = [], 0.0, 0.0
    for number in range(count):
        tokens = 20.0 * running[number]
        latency_us = 8000 + 100 * running[number] + effect_us * (waiting[number] > 0)
        made += tokens
        spent += tokens * (latency_us + random.normal(0, 50)) * 1e-6
        at = START_NS + number * 10 * PERIOD_NS
        common = {"realtime_ns": at, "monotonic_ns": at - START_NS, "tick": number, "index": 0}
        rows.append(
            common
            | {
                "source": "endpoint", "device": "http://server/metrics", "name": "vLLM",
                "engine_requests_running": running[number],
                "engine_requests_waiting": waiting[number],
                "engine_kv_cache_usage": 0.3, "engine_generation_tokens": made,
                "engine_itl_seconds_sum": spent, "engine_itl_seconds_count": made,
            }
        )  # fmt: skip
        rows.append(common | {"source": "host", "device": "host", "host_pressure_cpu": 0.0})
    return as_samples(rows)
