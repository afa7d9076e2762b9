"""The confidence sequence: its closed form, its coverage at every look, its robustness."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from assay.bench.replays.mixture import quadrature_error
from assay.improve.experiments.confidence_sequence import (
    ALPHA,
    ConfidenceSequence,
    half_width,
    interval,
    log_martingale,
)


def test_the_closed_form_is_the_integral_that_defines_it() -> None:
    assert quadrature_error() < 1e-9


@pytest.mark.parametrize("count", [2, 3, 5, 10, 40, 400])
def test_wider_than_an_interval_that_may_be_looked_at_once(count: int) -> None:
    squares = 0.02**2 * (count - 1)
    once = stats.t.ppf(1.0 - ALPHA / 2.0, count - 1) * 0.02 / math.sqrt(count)
    # The price of looking at any time: two to three times as wide from ten pairs on.
    assert once < half_width(count, squares) < (100.0 if count < 4 else 4.0) * once


def test_the_interval_ends_where_the_martingale_reaches_one_over_alpha() -> None:
    values = [0.031, 0.012, 0.025, 0.040, 0.018, 0.029]
    found = interval(values)
    count = len(values)
    mean = sum(values) / count
    squares = sum((value - mean) ** 2 for value in values)
    for edge in (found.lo, found.hi):
        statistic = count * (mean - edge) ** 2 / squares
        assert log_martingale(statistic, count) == pytest.approx(math.log(1.0 / ALPHA), rel=1e-9)
    assert found.value == pytest.approx(mean)


def test_nothing_is_known_of_one_pair() -> None:
    assert interval([]).hi == math.inf
    assert interval([0.5]).lo == -math.inf
    assert math.isfinite(interval([0.5, 0.5]).lo)


def test_a_large_gain_needs_few_pairs_and_a_small_one_more() -> None:
    numbers = random.Random(0)
    large, small = ConfidenceSequence(), ConfidenceSequence()
    large_after = next(n for n in range(1, 99) if large.add(numbers.gauss(0.5, 0.02)).lo > 0.0)
    small_after = next(n for n in range(1, 99) if small.add(numbers.gauss(0.03, 0.02)).lo > 0.0)
    assert large_after <= 4 < small_after <= 30


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_coverage_at_every_look(correlation: float) -> None:
    """Neighbors in time are alike, and A B B A shares them out: 5 % may be missed at any look."""
    numbers = random.Random(5)
    missed, runs = 0, 150
    for _ in range(runs):
        sequence, last, wrong = ConfidenceSequence(), 0.0, False
        for pair in range(60):
            blocks = []
            for _ in range(2):
                fresh = numbers.gauss(0.0, 0.03 * math.sqrt(1.0 - correlation**2))
                last = correlation * last + fresh
                blocks.append(last)
            if pair % 2 == 0:
                forward = numbers.random() < 0.5
            sign = 1.0 if forward == (pair % 2 == 0) else -1.0
            found = sequence.add(sign * (blocks[1] - blocks[0]))
            wrong = wrong or not found.lo <= 0.0 <= found.hi
        missed += wrong
    # Of 150 runs with a chance of 5 %, 14 or more have a chance of 2 %.
    assert missed < 14


def test_one_block_of_a_busy_neighbor_does_not_ruin_the_experiment() -> None:
    numbers = random.Random(2)
    calm = [numbers.gauss(0.03, 0.01) for _ in range(20)]
    hit = [*calm[:10], -1.5, *calm[10:]]
    assert interval(calm).lo > 0.0
    assert interval(hit).lo > 0.0
    assert interval(hit).value == pytest.approx(interval(calm).value, abs=0.01)


def test_equal_values_are_not_taken_for_certainty_beyond_the_clock() -> None:
    found = interval([0.0] * 5)
    assert found.lo < 0.0 < found.hi


@pytest.mark.parametrize("within", [0.002, 0.01])
def test_false_promotions_where_neighbors_share_a_restart(within: float) -> None:
    """In A B, B A, ... every visit of an arm serves two pairs, and a start may be a lucky one."""
    numbers = random.Random(9)
    promoted, runs = 0, 400
    for _ in range(runs):
        sequence, found = ConfidenceSequence(), False
        control, treatment = numbers.gauss(0.0, 0.02), numbers.gauss(0.0, 0.02)
        for pair in range(8):
            if pair % 2:
                control = numbers.gauss(0.0, 0.02)
            elif pair:
                treatment = numbers.gauss(0.0, 0.02)
            seen = sequence.add(treatment - control + numbers.gauss(0.0, within))
            found = found or (seen.lo > 0.0 and seen.value > math.log(1.01))
        promoted += found
    # 2.5 % are the sequence's own share of one side; of 400 runs 21 or more have a chance of 0.1 %.
    assert promoted <= 20
