"""Schedules of replicas that take time to start, beside all schedules of small instances; offers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from assay.errors import AssayError, InfeasibleError, InputError
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.fleet_plan import FleetPlan, plan_fleet
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.option import Option
from assay.planner.capacity.places import placed, read_places
from assay.planner.capacity.planning import Planner
from assay.planner.capacity.schedules import kept_running
from assay.planner.capacity.traffic import recorded, steady
from assay.planner.prices import cheapest_offer
from assay.planner.sources import hardware_spec


def cost(counts: Sequence[int], seconds: Sequence[float], start: float) -> float:
    # None runs before the first period.
    starts = sum(max(after - before, 0) for before, after in itertools.pairwise((0, *counts)))
    return sum(n * length for n, length in zip(counts, seconds, strict=True)) + starts * start


def test_schedules_are_the_cheapest_of_all() -> None:
    generator = random.Random(4)
    for _ in range(60):
        needed = [generator.randint(0, 3) for _ in range(5)]
        needed[2] += 1
        seconds = [float(generator.choice((10, 30, 60))) for _ in needed]
        start = generator.choice((5.0, 40.0, 75.0, 500.0))
        every = itertools.product(*(range(n, max(needed) + 1) for n in needed))
        least = min(cost(counts, seconds, start) for counts in every)
        kept = kept_running(needed, seconds, start)
        assert all(n >= need for n, need in zip(kept, needed, strict=True))
        assert cost(kept, seconds, start) == pytest.approx(least)


def test_the_cheapest_offer_of_those_that_have_the_accelerator_is_taken() -> None:
    hardware = hardware_spec("h100")
    assert cheapest_offer(hardware, "aws,runpod") == "runpod:on-demand"
    assert cheapest_offer(hardware, "nobody,runpod") == "runpod:on-demand"
    assert cheapest_offer(hardware, "nobody,none") is None
    with pytest.raises(InputError, match="no price of h100_sxm at nobody:on-demand"):
        cheapest_offer(hardware, "nobody")


@pytest.mark.slow
def test_fleets_keep_servers_through_lulls_shorter_than_their_start() -> None:
    generator = np.random.default_rng(0)
    # Twenty minutes each: a peak, a lull, and a peak again.
    counts = (36_000, 6_000, 36_000)
    arrivals = np.concatenate(
        [np.sort(generator.uniform(1200.0 * i, 1200.0 * (i + 1), n)) for i, n in enumerate(counts)]
    )
    lengths = np.full(len(arrivals), 2000.0), np.full(len(arrivals), 200.0)
    traffic = recorded("lull", arrivals, *lengths, bin_seconds=1200.0)

    def fleet(start: float) -> FleetPlan:
        own = Planner(
            "llama-3.1-8b", traffic, Objective(1.0, 0.05), gpus=["h100"], tensor=[1],
            start_seconds=start,
        )  # fmt: skip
        return plan_fleet([own], Budget())

    at_once, slow = fleet(0.0), fleet(1800.0)
    assert at_once.hours[1].gpus < at_once.hours[0].gpus
    assert at_once.starts > 0
    assert slow.hours[1].gpus == min(slow.hours[0].gpus, slow.hours[2].gpus)
    assert slow.starts == max(slow.hours[2].gpus - slow.hours[0].gpus, 0)
    assert (slow.usd_per_hour or 0) > (at_once.usd_per_hour or 0)


@pytest.fixture(scope="module")
def option() -> Option:
    lengths = np.full(10, 1000.0), np.full(10, 100.0)
    return Planner(
        "llama-3.1-8b", steady("chats", 200.0, *lengths), Objective(1.0, 0.05), gpus=["h200"],
        tensor=[1],
    ).plan().best  # fmt: skip


def test_one_kind_each_is_paid_for_as_long_as_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model has requests all day, another in its last hour alone: a server of it costs a 24th of its rent."""
    generator = np.random.default_rng(0)
    day, start = 24 * 3600.0, 600.0
    times = {
        "llama-3.1-8b": np.sort(generator.uniform(0.0, day, 2_400)),
        "qwen3-8b": np.sort(generator.uniform(day - 3600.0, day, 100)),
    }
    planners, plans = [], []
    for name, own in times.items():
        lengths = np.full(len(own), 1000.0), np.full(len(own), 100.0)
        traffic = recorded("day", own, *lengths, within=(0.0, day))
        planner = Planner(
            name, traffic, Objective(1.0, 0.05), gpus=["h200"], tensor=[1], start_seconds=start
        )
        plan = planner.plan()
        monkeypatch.setattr(planner, "plan", lambda plan=plan: plan)
        planners.append(planner)
        plans.append(plan)
    all_day, last_hour = (plan.best for plan in plans)
    assert (len(all_day.schedule), len(last_hour.schedule)) == (24, 1)
    assert all_day.usd_per_hour is not None
    assert last_hour.replica_usd_per_hour is not None
    # It is paid for while it starts, too.
    hours = last_hour.replicas * (1 + start / 3600.0)
    expected = all_day.usd_per_hour + last_hour.replica_usd_per_hour * hours / 24
    fleet = plan_fleet(planners, Budget())
    assert fleet.alone == pytest.approx(expected)
    # One server of each is enough at any time, so that no mix is cheaper.
    assert fleet.usd_per_hour == pytest.approx(expected)


def test_replicas_stand_where_electricity_is_cheapest_within_its_power(option: Option) -> None:
    each = (option.rated_watts or 0.0) / option.replicas
    text = f"finland:{2.5 * each / 1e3},us_texas:{3.5 * each / 1e3},germany"
    rows = placed(option, read_places(text))
    assert [(row.place, row.replicas) for row in rows][:2] == [("us_texas", 3), ("finland", 2)]
    assert sum(row.replicas for row in rows) == option.replicas
    assert all(row.limit_watts is None or row.rated_watts <= row.limit_watts for row in rows)
    # Eurostat's 0.0939 EUR/kWh at 1.08 USD/EUR; what replicas draw on average.
    kilowatts = 2 * (option.watts or 0.0) / option.replicas / 1e3
    assert rows[1].usd_per_hour == pytest.approx(0.0939 * 1.08 * kilowatts, rel=1e-3)
    assert placed(option, read_places(text), "carbon")[0].place == "finland"


def test_places_with_too_little_power_say_what_is_left(option: Option) -> None:
    with pytest.raises(InfeasibleError, match=r"kW in 1 places, \d+ are left"):
        placed(option, read_places("finland:2"))
    for text, said in (("finland:x", "PLACE:KW"), ("", "got none"), ("atlantis", "unknown entry")):
        with pytest.raises(AssayError, match=said):
            read_places(text)
