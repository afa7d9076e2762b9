"""Ramps of rates on queues whose capacity is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.errors import InputError
from assay.load.window import summarize
from assay.load.workloads.builtin import workload
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.ramp import (
    LEAST_REQUESTS,
    RAMP,
    ramp_figures,
    ramp_length,
    ramped,
    rate_of,
)
from assay.load.workloads.workload import ServiceLevel, Workload

COUNT = 240


def ramp(rate: float, limit_ms: float, seed: int = 0) -> Workload:
    planned = workload("chat", requests=COUNT)
    return ramped(replace(planned, slo=ServiceLevel(ttft_ms=limit_ms)), rate, COUNT, seed)


def served(load: Workload, service_s: float) -> list[RequestRecord]:
    """One server, first come first served, the same time for each: at most 1 / service_s a second."""
    free, records = 0.0, []
    for number, request in enumerate(load.requests[:COUNT]):
        begin = max(free, request.arrival_s)
        free = begin + service_s
        records.append(RequestRecord(number, request.arrival_s, free, free + 0.1, 10, 11))
    return records


def test_the_rate_is_that_of_the_server() -> None:
    load = ramp(10.0, 500.0)
    assert ramp_length(load) == COUNT
    kept = ramp_figures(load, served(load, 0.1))["slo_rate"]
    # A tenth of Poisson arrivals wait longer than four services at 78 % of what the server can do
    # (heavy traffic: exp(-8 (1 - load) / load)); those before the place count too.
    assert 7.8 <= kept <= 12.0


def test_everything_twice_as_fast_keeps_twice_the_rate() -> None:
    slow, fast = ramp(10.0, 500.0), ramp(20.0, 250.0)
    first = ramp_figures(slow, served(slow, 0.1))["slo_rate"]
    second = ramp_figures(fast, served(fast, 0.05))["slo_rate"]
    assert second == pytest.approx(2 * first)


def test_a_faster_server_is_found_faster() -> None:
    ratios = []
    for seed in range(8):
        load = ramp(10.0, 500.0, seed)
        before = ramp_figures(load, served(load, 0.1))["slo_rate"]
        after = ramp_figures(load, served(load, 0.1 / 1.2))["slo_rate"]
        ratios.append(after / before)
    assert sum(ratios) / len(ratios) == pytest.approx(1.2, rel=0.06)


def test_limits_that_are_never_or_always_kept() -> None:
    load = ramp(10.0, 500.0)
    assert ramp_figures(load, served(load, 0.6))["slo_rate"] == pytest.approx(rate_of(load, 0))
    assert ramp_figures(load, served(load, 0.001))["slo_rate"] == pytest.approx(20.0, rel=0.01)


def test_a_window_has_the_figures_of_its_ramps() -> None:
    load = ramp(10.0, 500.0)
    once = served(load, 0.1)
    later = once[-1].end_s + 30.0
    again = [
        replace(
            record,
            number=record.number + COUNT,
            sent_s=record.sent_s + later,
            first_token_s=(record.first_token_s or 0.0) + later,
            end_s=record.end_s + later,
        )
        for record in once
    ]
    first = ramp_figures(load, once)
    assert ramp_figures(load, [*once, *again]) == pytest.approx(first)
    assert ramp_figures(load, once[: COUNT // 2]) == {}
    window = summarize(load, once, 60.0, started_at=0.0, settings={})
    assert window.figures["slo_rate"] == first["slo_rate"]
    # Tokens of a user: 10 more after the first in 100 ms.
    assert first["ramp_1_tokens_per_s_user"] == pytest.approx(100.0)
    assert first["ramp_6_output_throughput"] > first["ramp_1_output_throughput"]


def test_few_requests_are_refused() -> None:
    with pytest.raises(InputError, match=f"at least {LEAST_REQUESTS} requests"):
        ramped(workload("chat", requests=8), 4.0, 100)
    assert ramp(4.0, 100.0).arrival == RAMP
