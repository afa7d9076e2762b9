"""Schedules of replicas that take time to start, beside all schedules of small instances; offers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from assay.errors import InputError
from assay.planner.capacity.option import kept_running
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
