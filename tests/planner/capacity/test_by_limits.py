"""Rates by limits, beside the search for one rate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.planner.capacity.by_limits import (
    FIRST_TOKEN,
    OUTPUT_TOKEN,
    RatesByLimits,
    rates_by_limits,
)
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.planning import Planner
from assay.planner.capacity.replay import replay
from assay.planner.capacity.traffic import steady


@pytest.fixture(scope="module")
def planner() -> Planner:
    generator = np.random.default_rng(5)
    prompts = np.maximum(np.rint(1024 * np.exp(generator.normal(0, 0.8, 2000))), 1.0)
    outputs = np.maximum(np.rint(128 * np.exp(generator.normal(0, 0.6, 2000))), 1.0)
    traffic = steady("chats", 40.0, prompts, outputs)
    return Planner(
        "llama-3.1-8b", traffic, Objective(1.0, 0.02), gpus=["h200"], tensor=[1], apart=True
    )


@pytest.fixture(scope="module")
def rates(planner: Planner) -> RatesByLimits:
    return rates_by_limits(planner)


@pytest.mark.parametrize(("first", "token"), [(1.0, 0.05), (0.3, 0.02), (5.0, 0.012), (1.0, 0.01)])
def test_rates_are_those_of_a_search_for_each_pair_of_limits(
    planner: Planner, rates: RatesByLimits, first: float, token: float
) -> None:
    row, column = FIRST_TOKEN.index(first), OUTPUT_TOKEN.index(token)
    for server, own in zip(planner.servers, rates.servers, strict=True):
        searched = server.highest(planner.sample, planner.deviations, Objective(first, token))
        assert own.rates[row][column] == pytest.approx(searched, rel=0.03)


def test_looser_limits_serve_no_less(rates: RatesByLimits) -> None:
    for server in rates.servers:
        table = np.array(server.rates)
        assert (np.diff(table, axis=0) >= 0).all()
        assert (np.diff(table, axis=1) >= 0).all()
        assert table[-1, -1] > 0


def test_more_requests_keep_no_more_of_a_limit_that_few_miss(planner: Planner) -> None:
    # Of these lengths about one in a hundred requests meets prompts that are too long for 10 ms a token, over a wide
    # range of rates: what decides the highest rate is how that share grows.
    server, objective = planner.servers[0], Objective(1.0, 0.01)
    rates = np.geomspace(0.5, 8.0, 16)
    beyond = [
        server.served(planner.sample, float(rate), planner.deviations, objective).misses["tpot"]
        for rate in rates
    ]
    generator = np.random.default_rng(3)
    rate, count = 2.0, 12_000
    picked = generator.integers(0, len(planner.traffic.prompts), count)
    prompts, outputs = planner.traffic.prompts[picked], planner.traffic.outputs[picked]
    replayed = replay(
        server.slowed(planner.deviations), server.limits,
        np.cumsum(generator.exponential(1 / rate, count)), prompts, prompts, outputs,
    )  # fmt: skip
    late = float((replayed.output_token[outputs > 1] > 0.01).mean())

    assert (np.diff(beyond) >= -1 / 4096).all()
    assert float(np.interp(rate, rates, beyond)) < 2 * late + 0.001


def test_the_cheapest_has_replicas_for_the_rate(rates: RatesByLimits) -> None:
    cheapest = rates.cheapest(FIRST_TOKEN.index(1.0), OUTPUT_TOKEN.index(0.05))
    assert cheapest is not None
    usd, replicas, server = cheapest
    rate = server.rates[FIRST_TOKEN.index(1.0)][OUTPUT_TOKEN.index(0.05)]
    assert replicas == math.ceil(40.0 / rate)
    assert usd == pytest.approx(replicas * server.gpus * 4.59)
    # A step of 8 billion weights in 16 bits takes 16 GB / 4.8 TB/s = 3.3 ms at least.
    assert rates.cheapest(0, 0) is None
