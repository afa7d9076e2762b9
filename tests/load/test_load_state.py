"""Load states of queues whose load is known."""

from __future__ import annotations

import numpy as np
import pytest
from queues import queue_records

from assay.load.load_state import queue_trend, scored
from assay.load.window import summarize
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import ServiceLevel, Workload


def share_overloaded(load: float, servers: int, variation: float, count: int) -> float:
    rng = np.random.default_rng(7)
    states = [
        queue_trend(
            queue_records(rng, load=load, servers=servers, variation=variation, count=count)
        ).state
        for _ in range(40)
    ]
    return states.count("overloaded") / len(states)


@pytest.mark.parametrize("servers", [1, 8])
@pytest.mark.parametrize("variation", [0.0, 1.0])
def test_queues_that_keep_up_are_seldom_called_overloaded(servers: int, variation: float) -> None:
    assert share_overloaded(0.5, servers, variation, 200) == 0.0
    assert share_overloaded(0.9, servers, variation, 200) <= 0.1


@pytest.mark.parametrize("servers", [1, 8])
@pytest.mark.parametrize("variation", [0.0, 1.0])
def test_queues_that_grow_are_called_overloaded(servers: int, variation: float) -> None:
    assert share_overloaded(1.5, servers, variation, 200) >= 0.9
    assert share_overloaded(2.0, servers, variation, 200) == 1.0


def test_growth_is_the_share_that_piles_up() -> None:
    # At load 2 half of what arrives stays.
    records = queue_records(np.random.default_rng(1), load=2.0, variation=0.0, count=2000)
    trend = queue_trend(records)
    assert trend.growth == pytest.approx(0.5, abs=0.03)
    assert trend.growth_lo is not None
    assert 0.4 < trend.growth_lo < 0.5


def test_a_ramp_to_long_requests_is_no_overload() -> None:
    # 10 requests a second that take 5 s each, all served at once: 50 under way after the ramp.
    records = [RequestRecord(i, i / 10, i / 10 + 0.05, i / 10 + 5.0, 10, 100) for i in range(200)]
    trend = queue_trend(records)
    assert trend.state == "stable"
    assert trend.most_under_way == 50
    short = queue_trend(records[:60])
    assert short.state == "stable"
    assert short.growth is None
    assert "too short" in (short.note or "")


def closed_loop(concurrency: int, count: int) -> list[RequestRecord]:
    """A server that takes one request at a time, asked by so many clients."""
    ends = [0.0] * concurrency
    now = 0.0
    records = []
    for number in range(count):
        sent = ends[number % concurrency]
        begin, now = now, now + 0.1
        ends[number % concurrency] = now
        records.append(RequestRecord(number, sent, begin + 0.01, now, 10, 10))
    return records


def test_a_closed_loop_is_never_overloaded() -> None:
    assert queue_trend(closed_loop(1, 60)).state == "stable"
    assert queue_trend(closed_loop(8, 60)).state == "backlogged"


def test_all_at_once_is_a_backlog() -> None:
    batch = [RequestRecord(i, 0.0, i / 10 + 0.05, i / 10 + 0.1, 10, 10) for i in range(30)]
    assert queue_trend(batch).state == "backlogged"


def test_requests_that_the_client_gave_up_never_left() -> None:
    # Two a second arrive, one a second is served, and the client gives up after 1 s: the number
    # under way is bounded by the client's patience only.
    answered = [RequestRecord(2 * i, i + 0.0, i + 0.1, i + 0.9, 10, 10) for i in range(60)]
    given_up = [
        RequestRecord(2 * i + 1, i + 0.5, None, i + 1.5, 0, 0, error="timeout after 1 s")
        for i in range(60)
    ]
    assert queue_trend(answered + given_up).state == "overloaded"


def test_nothing_sent() -> None:
    assert queue_trend([]).note == "no request was sent"


def test_latencies_of_an_overloaded_window_are_withheld() -> None:
    workload = Workload("w", "", (), "poisson", None, 2.0, slo=ServiceLevel(ttft_ms=100.0))
    records = queue_records(np.random.default_rng(1), load=2.0, variation=0.0)
    seconds = max(one.end_s for one in records)
    found = summarize(workload, records, seconds, started_at=0.0, settings={"threads": 2})
    assert found.load_state == "overloaded"
    assert not [name for name in found.figures if name.endswith("_ms")]
    assert "request_goodput" not in found.figures
    assert found.figures["request_throughput"] == pytest.approx(200 / seconds)
    assert found.details["unscored"]["mean_ttft_ms"] > 1000
    assert found.details["queue"]["growth"] == pytest.approx(0.5, abs=0.1)
    assert found.settings == {"threads": 2}


@pytest.mark.parametrize("state", ["stable", "backlogged"])
def test_other_windows_keep_them(state: str) -> None:
    assert scored({"mean_ttft_ms": 1.0}, state) == ({"mean_ttft_ms": 1.0}, {})  # type: ignore[arg-type]


def test_a_late_or_busy_client_is_a_disturbance() -> None:
    workload = Workload("w", "", (), "poisson", None, 10.0)
    late = [
        RequestRecord(i, i / 10 + 0.02, i / 10 + 0.03, i / 10 + 0.04, 8, 2, scheduled_s=i / 10)
        for i in range(20)
    ]
    found = summarize(workload, late, 2.0, started_at=0.0, settings={}, client_cpu_share=0.9)
    assert [text.partition(":")[0] for text in found.disturbances] == [
        "the load client used 90% of a core",
        "the load client sent late",
    ]
    assert found.details["p99_lateness_ms"] == pytest.approx(20.0)
