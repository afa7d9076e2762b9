"""How sure the figures of one window are: 95 % intervals that hold under autocorrelation.

An interval says what a longer window of the same state would give, not what another start of the server
would: differences between starts need blocks of an experiment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from assay.array_types import Floats
from assay.intervals import Interval
from assay.load.metrics import request_latencies_ms, succeeded
from assay.load.workloads.measurement import RequestRecord
from assay.long_run import long_run_interval

CONFIDENCE: Final = 0.95
_SLICES: Final = 20
_LEAST: Final = 10
"""Requests below which no interval is given."""


def intervals(records: Sequence[RequestRecord], seconds: float) -> dict[str, Interval]:
    """Intervals of `output_throughput` and of the means of TTFT, TPOT and E2EL."""
    done = sorted(
        (record for record in records if succeeded(record)), key=lambda record: record.sent_s
    )
    if len(done) < _LEAST or seconds <= 0:
        return {}
    by_figure = {"output_throughput": _figure(_throughputs(done, seconds))}
    values = request_latencies_ms(done)
    several = np.array([record.output_tokens > 1 for record in done], dtype=bool)
    for name in ("ttft", "tpot", "e2el"):
        terms = values[name][several] if name == "tpot" else values[name]
        if terms.size >= _LEAST:
            by_figure[f"mean_{name}_ms"] = _figure(terms)
    return by_figure


def _throughputs(done: Sequence[RequestRecord], seconds: float) -> Floats:
    """Tokens a second in each slice of the window; a request's arrivals share its tokens."""
    times, weights = [], []
    for record in done:
        arrived = np.cumsum([record.first_token_s or 0.0, *record.itls_s])
        times.append(arrived)
        weights.append(np.full(arrived.size, record.output_tokens / arrived.size))
    edges = np.linspace(0.0, seconds, _SLICES + 1)
    # The last arrival is the end of the window; rounding must not lose it.
    inside = np.clip(np.concatenate(times), 0.0, seconds)
    tokens, _ = np.histogram(inside, edges, weights=np.concatenate(weights))
    return np.asarray(tokens * _SLICES / seconds, dtype=np.float64)


def _figure(terms: Floats) -> Interval:
    interval = long_run_interval(terms, CONFIDENCE)
    return interval._replace(lo=max(0.0, interval.lo))
