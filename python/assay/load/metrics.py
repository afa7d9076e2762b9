"""Request records to figures: the names and the formulas of `vllm bench serve`.

TTFT is the time to the first token; E2EL the time to the last; TPOT = (E2EL - TTFT) / (tokens - 1);
ITL the times between arrivals of tokens. Percentiles interpolate linearly, standard deviations are
those of the population. Tokens are counted as the engine counts them, never as chunks.

A figure without a single value is left out, where `vllm bench serve` prints zero.

Reference: vLLM, vllm/benchmarks/serve.py, calculate_metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import ServiceLevel

LATENCIES: Final = ("ttft", "tpot", "itl", "e2el")
"""The latencies, as the names of figures spell them: mean_ttft_ms, p99_e2el_ms."""

PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0)


def figures(
    records: Sequence[RequestRecord],
    seconds: float,
    slo: ServiceLevel | None = None,
    percentiles: Sequence[float] = PERCENTILES,
) -> dict[str, float]:
    """The figures of a window that lasted `seconds`; `request_goodput` only under an SLO.

    >>> record = RequestRecord(0, sent_s=0.0, first_token_s=0.5, end_s=2.5, prompt_tokens=8, output_tokens=5)
    >>> window = figures([record], seconds=2.5)
    >>> window["output_throughput"], window["mean_ttft_ms"], window["mean_tpot_ms"]
    (2.0, 500.0, 500.0)
    """
    done = [record for record in records if succeeded(record)]
    prompt = sum(record.prompt_tokens for record in done)
    output = sum(record.output_tokens for record in done)
    by_name: dict[str, float] = {
        "duration": seconds,
        "completed": float(len(done)),
        "failed": float(len(records) - len(done)),
        "total_input_tokens": float(prompt),
        "total_output_tokens": float(output),
    }
    if seconds > 0:
        by_name["request_throughput"] = len(done) / seconds
        by_name["output_throughput"] = output / seconds
        by_name["total_token_throughput"] = (prompt + output) / seconds
        if slo is not None and limits_ms(slo):
            by_name["request_goodput"] = float(is_good(done, slo).sum()) / seconds
    for name, values in latencies_ms(done).items():
        if values.size:
            by_name[f"mean_{name}_ms"] = float(values.mean())
            by_name[f"median_{name}_ms"] = float(np.median(values))
            by_name[f"std_{name}_ms"] = float(values.std())
            for percentile in percentiles:
                by_name[f"p{percentile:g}_{name}_ms"] = float(np.percentile(values, percentile))
    if done:
        by_name |= _peaks(done)
    return by_name


def succeeded(record: RequestRecord) -> bool:
    """Whether a request ended without an error and with at least one token."""
    return record.error is None and record.first_token_s is not None


def limits_ms(slo: ServiceLevel) -> dict[str, float]:
    """The limits that are set, by the name of the latency."""
    pairs = {"ttft": slo.ttft_ms, "tpot": slo.tpot_ms, "e2el": slo.e2el_ms}
    return {name: limit for name, limit in pairs.items() if limit is not None}


def latencies_ms(done: Sequence[RequestRecord]) -> dict[str, Floats]:
    """The samples of each latency over requests that succeeded.

    TPOT has no sample for a request of one token.
    """
    per_request = request_latencies_ms(done)
    several = np.array([record.output_tokens > 1 for record in done], dtype=bool)
    gaps = [gap for record in done for gap in record.itls_s]
    return {
        "ttft": per_request["ttft"],
        "tpot": per_request["tpot"][several],
        "itl": 1e3 * np.array(gaps, dtype=np.float64),
        "e2el": per_request["e2el"],
    }


def request_latencies_ms(done: Sequence[RequestRecord]) -> dict[str, Floats]:
    """TTFT, TPOT and E2EL of each request; the TPOT of a request of one token is zero."""
    sent = np.array([record.sent_s for record in done], dtype=np.float64)
    first = np.array([record.first_token_s for record in done], dtype=np.float64)
    end = np.array([record.end_s for record in done], dtype=np.float64)
    tokens = np.array([record.output_tokens for record in done], dtype=np.float64)
    tpot = np.where(tokens > 1, (end - first) / np.maximum(tokens - 1, 1), 0.0)
    return {"ttft": 1e3 * (first - sent), "tpot": 1e3 * tpot, "e2el": 1e3 * (end - sent)}


def is_good(done: Sequence[RequestRecord], slo: ServiceLevel) -> Flags:
    """Which of the requests that succeeded keep every limit; a limit itself is kept."""
    values = request_latencies_ms(done)
    good = np.ones(len(done), dtype=bool)
    for name, limit in limits_ms(slo).items():
        good &= values[name] <= limit
    return good


def is_latency(figure: str) -> bool:
    """Whether a figure is a latency or is derived from latencies, as goodput is.

    >>> is_latency("p99_ttft_ms"), is_latency("request_goodput"), is_latency("output_throughput")
    (True, True, False)
    """
    return figure == "request_goodput" or any(figure.endswith(f"_{name}_ms") for name in LATENCIES)


def _peaks(done: Sequence[RequestRecord]) -> Mapping[str, float]:
    """The most output tokens and the most requests under way in one second of the window.

    An arrival stands for all of its tokens: `vllm bench serve` counts one for each chunk, which is
    the same without speculation.
    """
    start = min(record.sent_s for record in done)
    size = int(np.ceil(max(record.end_s for record in done) - start)) + 1
    arrivals, weights = [], []
    for record in done:
        times = np.cumsum([record.first_token_s or 0.0, *record.itls_s]) - start
        arrivals.append(times)
        weights.append(np.full(times.size, record.output_tokens / times.size))
    second = np.clip(np.concatenate(arrivals).astype(np.int64), 0, size - 1)
    tokens = np.bincount(second, np.concatenate(weights), minlength=size)
    edges = np.zeros(size + 1)
    np.add.at(edges, [int(record.sent_s - start) for record in done], 1.0)
    np.add.at(edges, [int(record.end_s - start) + 1 for record in done], -1.0)
    return {
        "max_output_tokens_per_s": float(tokens.max()),
        "max_concurrent_requests": float(np.cumsum(edges).max()),
    }
