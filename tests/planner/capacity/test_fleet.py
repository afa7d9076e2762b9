"""Fleets beside every fleet there is, and budgets that none exceeds."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from assay.errors import InfeasibleError
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.fleet import Kind, choose_fleet

GPUS = ("h100", "h200", "b200")


def drawn(
    generator: random.Random, models: int, kinds: int
) -> tuple[list[Kind], dict[str, float], Budget]:
    """A random fleet problem of few servers, so that all of its fleets can be listed."""
    made = []
    for number in range(kinds):
        gpus = generator.choice((1, 2, 4, 8))
        made.append(
            Kind(
                f"model {number % models}",
                f"kind {number}",
                generator.choice(GPUS),
                gpus,
                gpus * generator.uniform(0.5, 3.0),
                gpus * generator.uniform(1.0, 8.0),
                gpus * generator.uniform(300.0, 1500.0),
            )
        )
    demands = {f"model {number}": generator.uniform(0.5, 12.0) for number in range(models)}
    budget = Budget(
        gpus=generator.choice((math.inf, generator.randint(4, 40))),
        watts=generator.choice((math.inf, generator.uniform(2e3, 4e4))),
        usd_per_hour=generator.choice((math.inf, generator.uniform(10.0, 150.0))),
        available={"h100": generator.randint(0, 16)} if generator.random() < 0.5 else {},
    )
    return made, demands, budget


def keeps(
    kinds: list[Kind], counts: tuple[int, ...], demands: dict[str, float], budget: Budget
) -> bool:
    chosen = list(zip(counts, kinds, strict=True))
    served = {
        model: sum(n * kind.rate for n, kind in chosen if kind.model == model) for model in demands
    }
    return (
        all(served[model] >= demand * (1 - 1e-9) for model, demand in demands.items())
        and sum(n * kind.gpus for n, kind in chosen) <= budget.gpus
        and math.fsum(n * (kind.watts or 0) for n, kind in chosen) <= budget.watts
        and math.fsum(n * (kind.usd_per_hour or 0) for n, kind in chosen) <= budget.usd_per_hour
        and all(
            sum(n * kind.gpus for n, kind in chosen if kind.gpu == gpu) <= number
            for gpu, number in budget.available.items()
        )
    )


def cheapest(kinds: list[Kind], demands: dict[str, float], budget: Budget) -> float:
    """The least cost of all fleets, infinite where none keeps the budgets."""
    most = [range(math.ceil(demands[kind.model] / kind.rate) + 1) for kind in kinds]
    costs = [
        math.fsum(n * (kind.usd_per_hour or 0) for n, kind in zip(counts, kinds, strict=True))
        for counts in itertools.product(*most)
        if keeps(kinds, counts, demands, budget)
    ]
    return min(costs, default=math.inf)


def compare(seed: int) -> None:
    generator = random.Random(seed)
    kinds, demands, budget = drawn(generator, generator.choice((1, 2)), generator.choice((2, 3, 4)))
    least = cheapest(kinds, demands, budget)
    if math.isinf(least):
        with pytest.raises(InfeasibleError):
            choose_fleet(kinds, demands, budget)
        return
    fleet = choose_fleet(kinds, demands, budget)
    assert keeps(kinds, fleet.counts, demands, budget)
    assert fleet.usd_per_hour is not None
    assert least <= fleet.usd_per_hour * (1 + 1e-9)
    assert fleet.usd_per_hour <= least * (1 + fleet.gap + 1e-9)


def test_fleets_are_the_cheapest_of_all_of_small_instances() -> None:
    for seed in range(25):
        compare(seed)


@pytest.mark.slow
def test_fleets_are_the_cheapest_of_all_of_two_hundred_instances() -> None:
    for seed in range(200):
        compare(seed)


def never_exceeds(count: int, start: int = 0) -> None:
    kept = 0
    for seed in range(start, start + count):
        generator = random.Random(10_000 + seed)
        kinds, demands, budget = drawn(generator, 3, 9)
        try:
            fleet = choose_fleet(
                kinds, demands, budget, generator.choice(("cost", "gpus", "power"))
            )
        except InfeasibleError:
            continue
        assert keeps(kinds, fleet.counts, demands, budget), seed
        kept += 1
    # Most random budgets are neither empty nor endless.
    assert count / 10 < kept < count


def test_no_budget_is_exceeded() -> None:
    never_exceeds(40)


@pytest.mark.slow
def test_no_budget_of_ten_thousand_is_exceeded() -> None:
    never_exceeds(10_000)


def test_a_server_without_a_price_is_not_chosen_under_a_budget_of_dollars() -> None:
    free = Kind("m", "unknown", "x", 1, 5.0, None, 100.0)
    known = Kind("m", "known", "y", 1, 1.0, 2.0, 100.0)
    assert choose_fleet([free, known], {"m": 3.0}, Budget(usd_per_hour=10.0)).counts == (0, 3)
    with pytest.raises(InfeasibleError, match="known usd_per_hour"):
        choose_fleet([free], {"m": 3.0}, Budget())
