"""Queues beside their textbook formulas: M/M/1, M/D/1, M/G/1 (Pollaczek and Khinchine) and M/M/k (Erlang C)."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from assay.errors import EvaluationError
from assay.planner.capacity.queues import inverse, number_there, waiting_times
from assay.planner.capacity.replay import replay
from assay.planner.capacity.served import ServerLimits

from .synthetic_servers import table

SHARES = (np.arange(20_000) + 0.5) / 20_000


def mean_wait(rate: float, service: np.ndarray, dispersion: float = 1.0) -> float:
    times, below = waiting_times(rate, service, dispersion=dispersion)
    return float(inverse(times, below, SHARES).mean())


EXPONENTIAL = -np.log(1 - (np.arange(4096) + 0.5) / 4096)
SKEWED = np.exp(np.random.default_rng(3).normal(0.0, 1.0, 4096))


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8, 0.95])
@pytest.mark.parametrize(
    "service", [np.array([1.0]), EXPONENTIAL, SKEWED], ids=["M/D/1", "M/M/1", "M/G/1"]
)
def test_mean_wait_is_pollaczek_and_khinchines(load: float, service: np.ndarray) -> None:
    rate = load / service.mean()
    expected = rate * (service**2).mean() / (2 * (1 - load))
    assert mean_wait(rate, service) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_waits_of_a_memoryless_server_are_exponential(load: float) -> None:
    times, below = waiting_times(load, EXPONENTIAL)
    for time in (0.5, 2.0, 5.0):
        share = float(np.interp(time, times, below))
        assert 1 - share == pytest.approx(load * math.exp(-(1 - load) * time), rel=0.03)


def test_bursts_wait_for_each_other() -> None:
    # Groups of geometric size b: (E[S^2] + 2 (b - 1) E[S]^2) lambda / 2 (1 - rho) + (b - 1) E[S].
    group, load = 2.0, 0.5
    expected = load * (1 + 2 * (group - 1)) / (2 * (1 - load)) + (group - 1)
    assert mean_wait(load, np.array([1.0]), 2 * group - 1) == pytest.approx(expected, rel=0.02)


def test_a_load_of_one_has_no_wait() -> None:
    with pytest.raises(EvaluationError, match="100%"):
        waiting_times(1.0, np.array([1.0]))


def erlang_c(servers: int, offered: float) -> float:
    terms = [offered**n / math.factorial(n) for n in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.7), (5, 4.0), (40, 35.0)])
def test_number_there_is_erlangs(servers: int, offered: float) -> None:
    share = number_there(offered, lambda most: np.arange(1, most + 1, dtype=float), servers)
    assert share[servers:].sum() == pytest.approx(erlang_c(servers, offered), rel=1e-4)
    beyond = np.maximum(np.arange(len(share)) - servers, 0)
    expected = erlang_c(servers, offered) * offered / (servers - offered)
    assert share @ beyond == pytest.approx(expected, rel=1e-3)


def test_replay_of_whole_prompts_is_a_queue_of_constant_service() -> None:
    count, load = 30_000, 0.7
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / load, count))
    prompts, outputs = np.full(count, 1000.0), np.ones(count)
    run = replay(table(token=1e-3), ServerLimits(1e9), arrivals, prompts, prompts, outputs)
    assert run.first_token.mean() - 1 == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    assert np.isnan(run.output_token).all()


def first_come_first_served(arrivals: np.ndarray, service: np.ndarray, servers: int) -> np.ndarray:
    """Waits in a queue of several servers (Kiefer and Wolfowitz): each takes the one that is free first."""
    free = [0.0] * servers
    waits = []
    for arrival, time in zip(arrivals.tolist(), service.tolist(), strict=True):
        start = max(arrival, heapq.heappop(free))
        waits.append(start - arrival)
        heapq.heappush(free, start + time)
    return np.array(waits)


def test_replay_of_decoding_is_a_queue_of_as_many_servers() -> None:
    # Steps take the same time whatever they decode, so that a place is a server.
    count, servers, offered, step = 5000, 5, 4.0, 1 / 400
    generator = np.random.default_rng(2)
    outputs = np.maximum(np.rint(generator.exponential(1 / step, count)), 1.0)
    arrivals = np.cumsum(generator.exponential(1 / offered, count))
    one = np.ones(count)
    run = replay(table(decode=step, most=servers), ServerLimits(1e9), arrivals, one, one, outputs)
    waits = first_come_first_served(arrivals, outputs * step, servers)
    assert run.first_token.mean() == pytest.approx(waits.mean(), rel=0.02)
    assert np.quantile(run.first_token, 0.99) == pytest.approx(np.quantile(waits, 0.99), rel=0.02)


def test_a_full_cache_preempts_and_every_request_still_ends() -> None:
    count = 50
    arrivals, prompts, outputs = np.zeros(count), np.full(count, 50.0), np.full(count, 100.0)
    run = replay(
        table(decode=1e-3, token=1e-6), ServerLimits(1000.0), arrivals, prompts, prompts, outputs
    )
    assert run.preempted > 0
    assert np.isfinite(run.end_to_end).all()
    # 100 tokens take 100 steps at least.
    assert run.end_to_end.min() >= 0.099
