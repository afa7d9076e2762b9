"""Plans: the floor, budgets, what binds, and latencies beside the other models of the same server."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assay.errors import InfeasibleError, InputError
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.candidates import candidates
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.planning import Planner
from assay.planner.capacity.replay import replay
from assay.planner.capacity.served import Sample, highest_rate, sample_of, serve
from assay.planner.capacity.simulation import simulate
from assay.planner.capacity.traffic import recorded, reuse_of, steady
from assay.planner.questions import predict_load
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

LIMITS = Objective(1.0, 0.05)


def lengths(prompt: float = 1024, output: float = 128, count: int = 2000) -> Any:
    generator = np.random.default_rng(5)
    prompts = np.maximum(np.rint(prompt * np.exp(generator.normal(0, 0.8, count))), 1.0)
    outputs = np.maximum(np.rint(output * np.exp(generator.normal(0, 0.6, count))), 1.0)
    return prompts, outputs


def planner(rate: float = 40.0, objective: Objective = LIMITS, **more: Any) -> Planner:
    options = {"gpus": ["h200"], "tensor": [1, 2], **more}
    return Planner("llama-3.1-8b", steady("chats", rate, *lengths()), objective, **options)


@pytest.fixture(scope="module")
def server() -> tuple[Any, Sample]:
    prompts, outputs = lengths()
    sample = sample_of(prompts, prompts, outputs)
    (own,), _ = candidates(
        model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig(), sample, tensor=[1],
        longest=float((prompts + outputs).max()),
    )  # fmt: skip
    return own, sample


def test_a_plan_has_no_fewer_gpus_than_its_floor_and_keeps_its_risk() -> None:
    plan = planner().plan()
    floor = min(floor.gpus for floor in plan.floors)
    for option in plan.options:
        assert option.gpus >= floor > 0
        assert option.risk <= 0.101
        assert option.attained.value >= LIMITS.share
        assert option.usd_per_hour == pytest.approx(option.gpus * 4.59)
    costs = [option.usd_per_hour for option in plan.options]
    assert costs == sorted(costs)
    assert plan.second is not None
    assert plan.second.layout != plan.best.layout


def test_one_replica_fewer_breaks_the_objective() -> None:
    made = planner(200.0, tensor=[1])
    best = made.plan().best
    sizing = made.sizing_of(best)
    assert best.replicas > 2
    assert sizing.keeps(sizing.first, 200.0, best.replicas)
    assert not sizing.keeps(sizing.first, 200.0, best.replicas - 1)


@pytest.mark.slow
def test_a_smaller_risk_takes_no_fewer_gpus() -> None:
    sure, likely = (planner(120.0, risk=risk, tensor=[1]).plan().best for risk in (0.01, 0.5))
    assert sure.gpus > likely.gpus
    assert sure.risk < 0.011


@pytest.mark.parametrize(
    ("budget", "named"),
    [
        (Budget(gpus=1), "gpus"),
        (Budget(watts=900.0), "watts"),
        (Budget(usd_per_hour=4.0), "usd_per_hour"),
    ],
)
def test_a_budget_that_nothing_keeps_is_named(budget: Budget, named: str) -> None:
    with pytest.raises(InfeasibleError, match=named):
        planner(100.0, budget=budget, tensor=[1]).plan()


@pytest.mark.parametrize(
    ("objective", "binds"),
    [(Objective(first_token=1e-3), "ttft"), (Objective(output_token=1e-3), "tpot")],
)
def test_an_objective_that_nothing_meets_names_what_binds(objective: Objective, binds: str) -> None:
    with pytest.raises(InfeasibleError, match=rf"{binds} <= 1 ms is missed by 100 %"):
        planner(1.0, objective, tensor=[1]).plan()


def test_requests_beyond_the_models_context_are_refused() -> None:
    traffic = steady("long", 1.0, np.array([200_000.0]), np.array([10.0]))
    with pytest.raises(InputError, match=r"131,072 tokens, the context of llama-3\.1-8b"):
        Planner("llama-3.1-8b", traffic, LIMITS, gpus=["h200"])


def test_attainment_falls_with_the_rate(server: tuple[Any, Sample]) -> None:
    own, sample = server
    highest = highest_rate(own.table, sample, own.limits, LIMITS)
    shares = [
        serve(own.table, sample, part * highest, own.limits, LIMITS).attained
        for part in (0.3, 0.9, 1.0, 1.03)
    ]
    assert all(before >= after for before, after in itertools.pairwise(shares))
    assert shares[2] >= LIMITS.share > shares[3]


@pytest.mark.parametrize("part", [0.2, 0.6])
def test_closed_form_is_near_the_replay(server: tuple[Any, Sample], part: float) -> None:
    own, sample = server
    rate = part * highest_rate(own.table, sample, own.limits, LIMITS)
    generator = np.random.default_rng(11)
    count = 8000
    picked = generator.integers(0, len(sample.prompts), count)
    prompts, outputs = sample.prompts[picked], sample.outputs[picked]
    arrivals = np.cumsum(generator.exponential(1 / rate, count))
    run = replay(own.table, own.limits, arrivals, prompts, prompts, outputs)
    served = serve(own.table, sample, rate, own.limits, LIMITS)
    # The clock of the replay follows the prompts of the last tenth of a second, that of the closed form their mean.
    for figure, near in (("first_token", 0.25), ("output_token", 0.17), ("end_to_end", 0.12)):
        values = np.quantile(getattr(run, figure)[800:], [0.5, 0.9, 0.99])
        for level, value in zip(("p50", "p90", "p99"), values, strict=True):
            assert getattr(getattr(served, figure), level) == pytest.approx(value, rel=near)


def test_closed_form_is_near_the_open_loop_model() -> None:
    """Of requests of one length there is another model, which was compared with measured servers."""
    (row,) = predict_load("llama-3.1-8b", "h200", [12.0]).rates
    prompts, outputs = np.full(10, 1024.0), np.full(10, 128.0)
    sample = sample_of(prompts, prompts, outputs)
    (own,), _ = candidates(
        model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig(), sample, tensor=[1],
        longest=1152.0,
    )  # fmt: skip
    served = serve(own.table, sample, 12.0, own.limits, LIMITS)
    for figure in ("first_token", "output_token", "end_to_end"):
        for level in ("p50", "p90"):
            value = getattr(getattr(row, figure), level)
            assert getattr(getattr(served, figure), level) == pytest.approx(value, rel=0.15)


def test_a_day_has_replicas_by_the_hour_and_costs_less_than_its_peak() -> None:
    generator = np.random.default_rng(3)
    hours = [
        generator.uniform(3600 * h, 3600 * (h + 1), n) for h, n in enumerate((20_000, 150_000))
    ]
    times = np.sort(np.concatenate(hours))
    prompts, outputs = lengths(count=len(times))
    traffic = recorded("day", times, prompts, outputs)
    best = Planner("llama-3.1-8b", traffic, LIMITS, gpus=["h200"], tensor=[1]).plan().best
    low, high = best.schedule
    assert low.rate == pytest.approx(20_000 / 3600, rel=0.01)
    assert low.replicas < high.replicas == best.replicas
    assert best.usd_per_hour is not None
    assert best.usd_per_hour < 4.59 * best.gpus


def test_prefix_routing_needs_no_more_replicas_than_any_routing() -> None:
    generator = np.random.default_rng(4)
    count = 4000
    # Conversations of a long common beginning: block ids repeat within a conversation.
    owners = generator.integers(0, 40, count)
    blocks = [[1000 * int(owner) + place for place in range(8)] for owner in owners]
    times = np.cumsum(generator.exponential(1 / 150, count))
    traffic = recorded(
        "chats", times, np.full(count, 4200.0), np.full(count, 60.0), reuse=reuse_of(blocks, 512)
    )
    options = {"gpus": ["h200"], "tensor": [1]}
    anywhere, near = (
        Planner("llama-3.1-8b", traffic, LIMITS, routes_by_prefix=by_prefix, **options).plan().best
        for by_prefix in (False, True)
    )
    assert near.prefix_hits > 0.9 > anywhere.prefix_hits
    assert near.gpus < anywhere.gpus


@pytest.mark.slow
def test_a_simulated_plan_agrees_with_its_closed_form() -> None:
    made = planner(tensor=[1])
    best = made.plan().best
    replayed = simulate(made.sizing_of(best), best)
    assert replayed.attained.value >= LIMITS.share
    assert all(replayed.agrees.values())


def test_a_limit_of_running_requests_keeps_a_tpot_by_itself(server: tuple[Any, Sample]) -> None:
    own, sample = server
    table = replace(own.table, most=8)
    served = serve(table, sample, 4.0, own.limits, LIMITS)
    assert served.running < 8
    assert math.isfinite(served.first_token.p99)
