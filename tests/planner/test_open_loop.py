"""Open-loop latencies against closed forms and an event simulation of the same engine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.errors import EvaluationError, InputError
from assay.planner.open_loop import open_loop
from assay.planner.prefill_chain import IterationTime, PrefillChain, Requests


def simulate(
    requests: Requests, iteration: IterationTime, count: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First tokens, mean gaps and ends of requests, one event at a time."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / requests.rate, count))
    now, following = 0.0, 0
    waiting: list[list[float]] = []  # arrival, units left
    running: list[list[float]] = []  # arrival, first token, tokens left
    first, gaps = [], []
    while following < count or waiting or running:
        while following < count and arrivals[following] <= now:
            waiting.append([arrivals[following], requests.units])
            following += 1
        if not waiting and not running:
            now = arrivals[following]
            continue
        room, done = requests.units_at_once, []
        decoding, units = len(running), 0
        for request in waiting:
            taken = min(room, request[1])
            request[1] -= taken
            room -= taken
            units += taken
            if request[1] == 0:
                done.append(request)
            if not room:
                break
        now += iteration(decoding, int(units))
        for request in running:
            request[2] -= requests.emitted
        for request in [r for r in running if r[2] <= 1e-9]:
            running.remove(request)
            gaps.append((now - request[1]) / max(requests.output - 1, 1))
        for request in done:
            waiting.remove(request)
            first.append(now - request[0] + requests.request_seconds)
            if requests.output > 1:
                running.append([request[0], now, requests.output - 1])
    part = slice(count // 10, None)
    return np.array(first)[part], np.array(gaps)[part]


def test_prompts_alone_are_a_queue_of_one_server() -> None:
    # Pollaczek and Khinchine: a wait of rho s / (2 (1 - rho)) before the own service.
    service, rate = 0.02, 30.0
    found = open_loop(Requests(rate=rate, output=1), lambda _, units: service * units)
    load = rate * service
    assert found.first_token.mean == pytest.approx(
        service + load * service / (2 * (1 - load)), rel=1e-3
    )


def test_requests_that_do_not_slow_each_other_are_poisson() -> None:
    # An infinite server: the mean number is the rate times the stay (Little).
    step = 0.01
    requests = Requests(rate=5.0, output=200)
    found = open_loop(requests, lambda n, k: step if n or k else 0.0)
    assert found.running == pytest.approx(5.0 * 200 * step, rel=0.01)
    assert found.output_token.p99 == pytest.approx(step, rel=1e-6)


def shared(n: int, units: int) -> float:
    return 0.005 + 6e-5 * n + 0.02 * units if n or units else 0.0


@pytest.mark.parametrize(("rate", "at_once", "units"), [(8.0, 8, 1), (20.0, 8, 1), (8.0, 1, 3)])
def test_an_event_simulation_of_the_engine_gives_the_same_percentiles(
    rate: float, at_once: int, units: int
) -> None:
    requests = Requests(rate=rate, output=128, units=units, units_at_once=at_once)
    predicted = open_loop(requests, shared)
    first, gaps = simulate(requests, shared, 2000, 1)
    assert predicted.first_token.mean == pytest.approx(first.mean(), rel=0.1)
    assert predicted.first_token.p50 == pytest.approx(np.quantile(first, 0.5), rel=0.15)
    assert predicted.first_token.p90 == pytest.approx(np.quantile(first, 0.9), rel=0.15)
    assert predicted.output_token.p50 == pytest.approx(np.quantile(gaps, 0.5), rel=0.1)
    assert predicted.output_token.p90 == pytest.approx(np.quantile(gaps, 0.9), rel=0.15)
    assert predicted.output_token.p99 == pytest.approx(np.quantile(gaps, 0.99), rel=0.2)


@pytest.mark.parametrize("late", [0.0, 0.8])
def test_an_idle_server_has_the_latency_of_one_request(late: float) -> None:
    def alone(rate: float) -> float:
        requests = Requests(rate=rate, output=128, request_seconds=0.003, late_iterations=late)
        found = open_loop(requests, shared).first_token
        assert found.p50 == pytest.approx(found.p99, rel=0.01)
        return found.mean

    own = 0.003 + shared(0, 1) + late * shared(1, 0)
    assert alone(1e-3) == pytest.approx(own, rel=1e-3)
    assert alone(1e-5) == pytest.approx(own, rel=1e-5)
    idle = open_loop(Requests(rate=1e-6, output=128), shared)
    assert idle.token_gap.mean == pytest.approx(shared(1, 0), rel=1e-3)


@pytest.mark.parametrize(("units", "at_once", "each"), [(1, 8, 1), (3, 1, 1), (2, 1, 4)])
def test_latencies_rise_with_the_rate(units: int, at_once: int, each: int) -> None:
    rates = (0.001, 0.01, 0.1, 0.5, 1, 2, 3, 4)
    rows = [
        open_loop(
            Requests(rate, 128, units, at_once, each, request_seconds=0.003, late_iterations=0.8),
            shared,
        )
        for rate in rates
    ]
    for name in ("first_token", "output_token", "end_to_end"):
        for figure in ("mean", "p50", "p90", "p99"):
            values = [getattr(getattr(row, name), figure) for row in rows]
            assert values == sorted(values), (name, figure)
    for row in rows:
        assert row.running == pytest.approx(row.rate * row.end_to_end.mean)


def test_parts_of_a_long_prompt_may_be_counted_together() -> None:
    fine = open_loop(Requests(1.0, 64, units=8, units_at_once=1), shared)
    coarse = open_loop(Requests(1.0, 64, units=2, units_at_once=1, unit_iterations=4), shared)
    assert coarse.first_token.mean == pytest.approx(fine.first_token.mean, rel=0.05)
    assert coarse.output_token.mean == pytest.approx(fine.output_token.mean, rel=0.05)


def test_drafted_tokens_shorten_the_time_between_tokens() -> None:
    plain = open_loop(Requests(rate=4.0, output=128), shared)
    drafted = open_loop(Requests(rate=4.0, output=128, emitted=2.5), shared)
    assert drafted.output_token.p50 < plain.output_token.p50 / 2
    assert drafted.running < plain.running / 2


def test_goodput_falls_to_nothing_as_limits_tighten_and_never_exceeds_the_rate() -> None:
    requests = Requests(rate=20.0, output=128, units_at_once=8)
    goodputs = [open_loop(requests, shared, limit, 0.02).goodput for limit in (1.0, 0.05, 0.01)]
    assert goodputs == sorted(goodputs, reverse=True)
    assert goodputs[0] <= 20.0
    assert goodputs[-1] == 0.0


def test_more_requests_than_the_server_completes_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="requests/s"):
        open_loop(Requests(rate=60.0, output=128), shared)
    with pytest.raises(EvaluationError, match="more than the server completes"):
        open_loop(Requests(rate=5.0, output=1000, most_running=4), shared)


def test_places_that_are_taken_make_requests_wait() -> None:
    free = open_loop(Requests(rate=6.0, output=128, units_at_once=8), shared)
    few = open_loop(Requests(rate=6.0, output=128, units_at_once=8, most_running=6), shared)
    assert few.first_token.mean > free.first_token.mean


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="expected a rate"):
        Requests(rate=0.0, output=10)
    assert math.isfinite(open_loop(Requests(rate=0.01, output=10), shared).end_to_end.p99)


@pytest.mark.parametrize("rate", [0.2, 0.7, 1.4])
def test_tokens_of_a_request_that_came_alone_wait_for_the_prompts_of_others_only(
    rate: float,
) -> None:
    # An iteration is there for the request's own token, whether a prompt comes or not.
    requests = Requests(rate=rate, output=4, units_at_once=100, most_running=63)

    def iteration(decoding: int, units: int) -> float:
        return 0.4 + 0.005 * decoding + 0.1 * units if decoding or units else 0.0

    _, gaps = simulate(requests, iteration, 20_000, 1)
    found = open_loop(requests, iteration).output_token
    assert found.mean == pytest.approx(gaps.mean(), rel=0.02)
    assert found.p99 == pytest.approx(np.quantile(gaps, 0.99), rel=0.1)


def test_hundreds_of_arrivals_in_an_iteration_take_few_points() -> None:
    """All pairs of arrivals before and after a request would be hundreds of millions of points."""
    requests = Requests(2000.0, 1, units_at_once=400)

    def iteration(_: int, units: int) -> float:
        return 0.05 + 2e-4 * units if units else 0.0

    values, shares = PrefillChain(requests, 0, iteration).first_token()
    assert len(values) <= 100_000
    measured, _ = simulate(requests, iteration, 20_000, seed=1)
    assert float(values @ shares) == pytest.approx(measured.mean(), rel=0.05)
