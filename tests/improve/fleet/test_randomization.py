"""The e-value of a draw: its expectation over all draws is 1, whatever the figures are."""

import itertools
import math
import random

import pytest

from assay.improve.fleet.randomization import Evidence, Round, e_value


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("spread", [0.001, 0.02, 1.0])
def test_its_mean_over_all_draws_is_one(size: int, spread: float) -> None:
    chance = random.Random(size)
    # Nothing is assumed of the figures: one is far off, and two are equal.
    values = [chance.gauss(0, 0.02) for _ in range(2 * size)]
    values[0] += 0.5
    values[-1] = values[1 % len(values)]
    drawn = list(itertools.combinations(range(2 * size), size))
    for sign in (1.0, -1.0):
        total = math.fsum(
            e_value(
                [values[place] for place in chosen],
                [value for place, value in enumerate(values) if place not in chosen],
                spread,
                sign,
            )
            for chosen in drawn
        )
        assert total / len(drawn) == pytest.approx(1.0, abs=1e-9)


def test_no_draw_says_more_than_there_are_draws() -> None:
    assert e_value([9.0], [0.0], 0.01) < 2.0
    assert e_value([9.0] * 3, [0.0] * 3, 0.01) < 20.0
    assert 40.0 < e_value([9.0] * 4, [0.0] * 4, 0.01) < 70.0
    # The part that is not bet survives the worst round.
    assert e_value([-9.0] * 4, [0.0] * 4, 0.01) == pytest.approx(0.1)


def test_many_replicas_are_sampled() -> None:
    assert e_value([0.1] * 12, [0.0] * 12, 0.05) > 1000.0
    assert e_value([0.0] * 12, [0.0] * 12, 0.05) == pytest.approx(1.0)


def test_bounds_hold_the_effect_and_narrow() -> None:
    chance = random.Random(7)
    evidence = Evidence()
    assert evidence.bounds(0.05) == (-math.inf, math.inf)
    widths = []
    for _ in range(6):
        groups = [tuple(chance.gauss(mean, 0.01) for _ in range(4)) for mean in (0.05, 0.0)]
        evidence.add(Round(groups[0], groups[1], 0.014))
        low, high = evidence.bounds(0.05)
        assert low < 0.05 < high
        widths.append(high - low)
    assert widths[-1] < widths[0]
    assert evidence.for_better > 20.0 > 1.0 > evidence.for_worse
    assert evidence.wealth(0.0, 1.0) == pytest.approx(evidence.for_better)
