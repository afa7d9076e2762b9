"""Stretches of a recording: a change of the rate is none of its burstiness, and bursts are no change of the rate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from assay.planner.capacity.stretches import _KEPT, _KEPT_MEAN, steadiness
from assay.planner.capacity.traffic import Traffic, recorded


def poisson(rates: list[float], seconds: float, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    parts = [
        np.sort(
            generator.uniform(seconds * n, seconds * (n + 1), generator.poisson(rate * seconds))
        )
        for n, rate in enumerate(rates)
    ]
    times: np.ndarray = np.concatenate(parts)
    return np.asarray(times - times[0])


def traffic(times: np.ndarray, bin_seconds: float = 3600.0) -> Traffic:
    lengths = np.ones(len(times))
    return recorded("drawn", times, lengths, lengths, bin_seconds=bin_seconds)


def test_two_rates_in_an_hour_are_no_bursts() -> None:
    """4 requests/s for half an hour, then 16: the index of dispersion of the whole hour is above 30."""
    own = traffic(poisson([4.0, 16.0], 1800.0))
    assert own.dispersion == pytest.approx(1.0, abs=0.15)
    assert own.peak == pytest.approx(16.0, rel=0.03)
    assert own.stretch is not None
    assert own.stretch.start == pytest.approx(1800.0, abs=20.0)
    (period,) = own.periods
    assert period.rate == pytest.approx(10.0, rel=0.03)
    assert own.requests == pytest.approx(len(own.prompts))


def test_the_peak_is_the_rate_of_the_stretch_that_is_named() -> None:
    """Ten minutes of one rate differ by chance: the busiest of them is the peak, and the stretch."""
    own = traffic(poisson([3.0], 3600.0), bin_seconds=600.0)
    assert own.stretch is not None
    assert own.peak == own.stretch.rate == max(period.rate for period in own.periods)
    assert own.stretch.seconds == pytest.approx(600.0, rel=0.05)


def test_a_day_curve_is_cut_where_it_moves() -> None:
    rates = [4 - 3 * float(np.cos(2 * np.pi * n / 1440)) for n in range(1440)]
    own = traffic(poisson(rates, 10.0))
    assert own.dispersion == pytest.approx(1.0, abs=0.1)
    assert own.peak == pytest.approx(7.0, rel=0.05)
    # Cosines of whole hours: the busiest part of the first is its end, of the second its end too.
    assert own.periods[0].busiest == pytest.approx(rates[359], rel=0.25)


def test_a_busy_minute_of_every_ten_is_a_stretch() -> None:
    own = traffic(poisson(([2.0] * 9 + [18.0]) * 6, 60.0))
    assert own.peak == pytest.approx(18.0, rel=0.1)
    assert own.dispersion < 4


@pytest.mark.parametrize("shape", [0.25, 1.0])
def test_bursts_of_one_rate_are_no_stretches(shape: float) -> None:
    """Renewal theory: counts of long windows have the squared variation of the gaps, 1 / shape."""
    generator = np.random.default_rng(5)
    times = np.cumsum(generator.gamma(shape, 1 / (10 * shape), 100_000))
    parts = steadiness(times - times[0], float(times[-1] - times[0]), 3600.0)
    assert len(parts.stretches) == 1
    # The index of m counts has a standard deviation of sqrt(2 / m), 4.5 % of 1,000 windows.
    assert parts.dispersion == pytest.approx(1 / shape, rel=0.15)


def test_few_requests_and_short_periods_have_their_mean() -> None:
    sparse = traffic(poisson([0.05], 86_400.0))
    assert sparse.peak == pytest.approx(0.05, rel=0.3)
    assert len(sparse.periods) == 24
    short = traffic(poisson([4.0, 16.0], 600.0), bin_seconds=30.0)
    assert short.stretch is None
    assert all(period.busiest == period.rate for period in short.periods)


def test_the_mean_of_small_squares_is_that_of_chi_squared() -> None:
    below = scipy.stats.chi2.ppf(_KEPT, 1)
    assert scipy.stats.chi2.cdf(below, 3) / _KEPT == pytest.approx(_KEPT_MEAN, abs=1e-4)
