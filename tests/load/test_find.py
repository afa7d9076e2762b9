"""The search for the highest load, against queues whose answer is known in closed form."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from assay.errors import InputError
from assay.load.attainment import attainment, effective_number, least_requests
from assay.load.find import Kind, Point, SearchOptions, find, not_monotone
from assay.load.window import summarize
from assay.load.workloads.arrivals import schedule
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import PlannedRequest, ServiceLevel, Window, Workload

WORKLOAD = Workload("w", "", tuple(PlannedRequest(i, "p", 10) for i in range(500)))


@dataclass
class Queue:
    """A server that takes one request at a time, first come, first served, in simulated time."""

    service_s: float
    variation: float = 1.0
    fails: float = 0.0
    """The share of requests that fail."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))
    windows: int = 0

    def measure(self, workload: Workload, window: Window) -> Measurement:
        assert window.requests is not None
        self.windows += 1
        service = np.full(window.requests, self.service_s)
        if self.variation:
            service = self.rng.exponential(self.service_s, window.requests)
        clients = [0.0] * (workload.concurrency or 1)
        free, records = 0.0, []
        for number, (_, _, due_s) in zip(
            range(window.requests), schedule(workload, window.offset), strict=False
        ):
            sent = heapq.heappop(clients) if workload.arrival == "closed" else due_s
            begin = max(free, sent)
            free = begin + float(service[number])
            heapq.heappush(clients, free)
            error = "HTTP 503" if self.rng.random() < self.fails else None
            first = None if error else begin + 0.2 * float(service[number])
            records.append(RequestRecord(number, sent, first, free, 10, 10, error=error))
        return summarize(workload, records, free, started_at=0.0, settings={})


@pytest.mark.parametrize(("limit_s", "share"), [(1.0, 0.9), (0.5, 0.9), (2.0, 0.8)])
def test_the_highest_rate_of_an_m_m_1_queue(limit_s: float, share: float) -> None:
    # The sojourn time of M/M/1 is exponential with rate mu - lambda (Kleinrock 1975), so that the
    # share within a limit is 1 - exp(-(mu - lambda) limit).
    queue = Queue(0.1)
    truth = 10.0 + math.log(1 - share) / limit_s
    options = SearchOptions(least_share=share, requests=2000)
    slo = ServiceLevel(e2el_ms=1e3 * limit_s)
    found = find("max-rate", WORKLOAD, slo, queue.measure, options)
    assert found.best is not None
    assert found.above is not None
    # Held with 95 % confidence: below the truth, by no more than tolerance and noise.
    assert 0.85 * truth < found.best.load < 1.05 * truth
    assert found.best.attainment.share.lo >= share
    assert found.above.load <= 1.06 * found.best.load
    assert found.above.attainment.binds in ("e2el", "overload")
    assert queue.windows < 60


@pytest.mark.parametrize(("limit", "expected"), [(8.5, 8), (1.5, 1), (30.2, 30)])
def test_the_most_requests_at_once_of_a_fixed_server(limit: float, expected: int) -> None:
    # Of n clients of a server that takes 0.1 s each, everyone waits for n services.
    slo = ServiceLevel(e2el_ms=100 * limit)
    options = SearchOptions(tolerance=1e-9, requests=300)
    found = find("max-concurrency", WORKLOAD, slo, Queue(0.1, 0.0).measure, options)
    assert found.best is not None
    assert found.best.load == expected
    assert found.above is not None
    assert found.above.load == expected + 1
    assert found.above.attainment.binds == "e2el"


@pytest.mark.parametrize("kind", ["max-rate", "max-concurrency"])
def test_an_infeasible_slo_says_what_binds(kind: Kind) -> None:
    # Alone, a request takes 100 ms and its first token 20 ms.
    slo = ServiceLevel(ttft_ms=25.0, tpot_ms=5.0)
    found = find(kind, WORKLOAD, slo, Queue(0.1, 0.0).measure)
    assert found.best is None
    assert found.nearest is not None
    assert (found.nearest.load, found.nearest.unit) == (1.0, "at once")
    assert found.nearest.attainment.binds == "tpot"
    assert found.nearest.windows[-1].figures["mean_tpot_ms"] == pytest.approx(80 / 9)
    assert len(found.points) == 1


def test_a_server_that_fails_too_often_holds_nothing() -> None:
    found = find("max-rate", WORKLOAD, ServiceLevel(e2el_ms=1e6), Queue(0.1, fails=0.3).measure)
    assert found.best is None
    assert found.nearest is not None
    assert found.nearest.attainment.binds == "errors"


def test_a_limit_that_holds_is_the_answer_and_said() -> None:
    options = SearchOptions(most=4.0)
    found = find("max-rate", WORKLOAD, ServiceLevel(e2el_ms=5e3), Queue(0.1).measure, options)
    assert found.best is not None
    assert found.best.load == 4.0
    assert found.notes == ("no load failed: the highest that was tried holds",)


def test_overload_never_holds() -> None:
    # Latencies of any length are allowed: only the growth of the queue ends the search.
    options = SearchOptions(requests=600)
    slo = ServiceLevel(e2el_ms=1e9)
    found = find("max-rate", WORKLOAD, slo, Queue(0.1, 0.0).measure, options)
    assert found.best is not None
    assert found.above is not None
    assert 9.0 < found.best.load < 11.5
    assert found.above.attainment.binds == "overload"


def test_loads_that_are_out_of_order_are_said() -> None:
    window = Queue(0.1, 0.0).measure(WORKLOAD, Window(requests=30))
    fine = attainment([window], ServiceLevel(e2el_ms=1e6))

    def point(load: float, holds: bool | None) -> Point:
        return Point(load, "requests/s", fine, holds, (window,))

    assert not_monotone([point(1.0, True), point(2.0, False)]) is None
    assert not_monotone([point(1.0, None), point(2.0, True)]) is None
    assert str(not_monotone([point(1.0, False), point(2.0, True)])).startswith(
        "not monotone: 1 requests/s fail although 2 hold"
    )


@pytest.mark.parametrize(
    ("slo", "options", "message"),
    [
        (ServiceLevel(), SearchOptions(), "--find: expected an SLO, got none"),
        (
            ServiceLevel(ttft_ms=1.0),
            SearchOptions(least_share=1.0),
            "--attainment: expected a share between 0 and 1, got 1",
        ),
        (
            ServiceLevel(ttft_ms=1.0),
            SearchOptions(requests=9),
            "--requests: expected at least 10 in each window to show 0.9 of them, got 9",
        ),
    ],
)
def test_questions_that_make_no_sense(
    slo: ServiceLevel, options: SearchOptions, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        find("max-rate", WORKLOAD, slo, Queue(0.1).measure, options)
    assert caught.value.message == message


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    # 9 of 10: one-sided 95 % bounds from scipy's binomial test, an implementation of its own.
    from scipy.stats import binomtest

    records = [
        RequestRecord(i, float(i), i + 0.1, i + (0.9 if i != 4 else 0.95), 1, 2) for i in range(10)
    ]
    workload = Workload("w", "", ())
    window = summarize(workload, records, 11.0, started_at=0.0, settings={})
    share = attainment([window], ServiceLevel(e2el_ms=920.0)).share
    expected = binomtest(9, 10).proportion_ci(0.90, "exact")
    assert share.value == 0.9
    assert share.lo == pytest.approx(expected.low)
    assert share.hi == pytest.approx(expected.high)
    assert share.lo <= 0.99 <= share.hi


def test_neighbors_that_share_their_fate_count_less() -> None:
    rng = np.random.default_rng(5)
    independent = rng.random(4000) < 0.8
    assert effective_number(independent) == pytest.approx(4000, rel=0.15)
    # Each repeated ten times: a tenth of them are independent.
    assert effective_number(np.repeat(independent[:400], 10)) == pytest.approx(400, rel=0.35)
    # A Markov chain with autocorrelation a: n (1 - a) / (1 + a).
    chain = [True]
    for move in rng.random(20_000):
        chain.append(chain[-1] if move < 0.6 else bool(rng.random() < 0.5))
    assert effective_number(np.array(chain)) == pytest.approx(20_000 * 0.4 / 1.6, rel=0.15)


def test_how_many_requests_a_share_needs() -> None:
    for share in (0.5, 0.9, 0.95, 0.99):
        number = least_requests(share)
        assert share**number <= 0.05 < share ** (number - 1)
