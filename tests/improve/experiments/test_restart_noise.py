"""False promotions where what differs from start to start is all that differs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.improve.experiments.confidence_sequence import (
    ALPHA,
    ConfidenceSequence,
    Design,
    half_width,
)
from assay.improve.experiments.result import Block
from assay.improve.experiments.settings import LEAST_STARTED_PAIRS, PRACTICAL_THRESHOLD
from assay.improve.experiments.starts import UNKNOWN_START_SD, start_noise

LENGTHS = (6, 40, 200)


def false_alarms(runs: int, restart: float, noise: float, design: Design) -> dict[int, float]:
    """Share of A/A runs whose interval excludes equality at any look up to a number of pairs.

    Starts follow each other as A0 B0 A1 B1 A2 ...: pair 0 is A0 and B0, pair 1 is B0 and A1.
    """
    random = np.random.default_rng(0)
    control, treatment = random.normal(0.0, restart, (2, runs, max(LENGTHS) // 2 + 1))
    mean, half = intervals(control, treatment, noise, design, random)
    excluded = np.abs(mean) > half
    return {length: float(excluded[:, 1:length].any(axis=1).mean()) for length in LENGTHS}


def false_promotions(runs: int, fast: float, least: int, pairs: int = 40) -> float:
    """Share of A/A runs that are promoted where starts are 5 % faster with a chance `fast`."""
    random = np.random.default_rng(0)
    control, treatment = 0.05 * (random.random((2, runs, pairs // 2 + 1)) < fast)
    mean, half = intervals(control, treatment, 0.0005, Design(shares_starts=True), random)
    promoted = (mean > half) & (mean >= math.log1p(PRACTICAL_THRESHOLD))
    return float(promoted[:, least - 1 : pairs].any(axis=1).mean())


def intervals(
    control: NDArray[np.float64],
    treatment: NDArray[np.float64],
    noise: float,
    design: Design,
    random: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and half-width after each pair of these starts, a row a run."""
    number = np.arange(2 * (control.shape[1] - 1))
    ratios = treatment[:, number // 2] - control[:, (number + 1) // 2]
    ratios = ratios + random.normal(0.0, noise * math.sqrt(2.0), ratios.shape)
    count = number + 1
    mean = np.cumsum(ratios, axis=1) / count
    squares = np.maximum(np.cumsum(ratios**2, axis=1) - count * mean**2, 0.0)
    factors = np.array([design.variance_factor(int(n)) for n in count])
    # The width is that of unit squares times their root.
    unit = np.array([half_width(int(n), 1.0) if n > 1 else math.inf for n in count])
    with np.errstate(invalid="ignore"):
        return mean, np.nan_to_num(unit * np.sqrt(factors * squares), nan=math.inf)


def test_pairs_that_share_starts_are_not_independent() -> None:
    """Taken for independent, 40 pairs exclude equality in more than twice the 5 % promised."""
    assert false_alarms(1000, 0.03, 0.0, Design())[40] > 2 * ALPHA
    assert false_alarms(1000, 0.03, 0.0, Design(shares_starts=True))[40] < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_five_percent_hold_at_any_length_under_restart_noise(noise: float) -> None:
    alarms = false_alarms(10_000, 0.03, noise, Design(shares_starts=True))
    assert max(alarms.values()) <= ALPHA


def test_starts_in_one_of_two_modes_agree_by_chance() -> None:
    """Two pairs share a start of the treatment: slow, fast, slow looks like a gain without noise."""
    assert false_promotions(4000, 0.5, least=2) > 2 * ALPHA


@pytest.mark.parametrize("fast", [0.1, 0.3, 0.4, 0.5, 0.6, 0.9])
def test_four_pairs_hold_five_percent_for_two_modes(fast: float) -> None:
    assert false_promotions(4000, fast, least=LEAST_STARTED_PAIRS) <= ALPHA


def test_the_sequence_is_what_was_simulated() -> None:
    sequence = ConfidenceSequence(design=Design(shares_starts=True))
    for value in (0.01, 0.03, 0.02):
        sequence.add(value)
    plain = half_width(3, 0.0002)
    assert sequence.interval.hi - 0.02 == pytest.approx(math.sqrt(2.5) * plain)


def test_two_pairs_that_agree_do_not_belie_the_noise_of_the_machine() -> None:
    """A/A said 8 %; two pairs 0.1 % apart gave +-0.6 %."""
    sequence = ConfidenceSequence(design=Design(least_sd=0.08))
    sequence.add(0.100)
    interval = sequence.add(0.101)
    assert interval.lo < 0.0
    assert interval.hi - interval.value == pytest.approx(half_width(2, 0.08**2))


def test_the_spread_of_starts_is_that_of_levels_within_each_arm() -> None:
    """A B | B A | A B in three starts of the control (levels 0, 2, 4 %), two of the treatment (10, 12 %)."""
    levels = [
        ("control", 0.00), ("treatment", 0.10), ("treatment", 0.10),
        ("control", 0.02), ("control", 0.02), ("treatment", 0.12), ("control", 0.04),
    ]  # fmt: skip
    blocks = [
        Block("e", place, place // 2, arm, 0.0, 1.0, math.exp(level), 1, 1, "stable", {})
        for place, (arm, level) in enumerate(levels)
    ]
    warmup = replace(blocks[0], pair=-1, value=9.0, dropped="warm-up")
    noise = start_noise([[warmup, *blocks]])
    # (0.02^2 + 0 + 0.02^2) + (0.01^2 + 0.01^2) over 2 + 1 comparisons.
    assert noise.sd == pytest.approx(math.sqrt(0.001 / 3))
    assert noise.freedom == 3
    # Too few to take for known; from six on they are.
    assert noise.assumed_sd == UNKNOWN_START_SD
    assert start_noise([blocks, blocks]).assumed_sd == pytest.approx(math.sqrt(0.001 / 3))
