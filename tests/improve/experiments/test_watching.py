"""The guard after promotion: rarely without reason, and soon after a change turns bad."""

import math
import random

import pytest

from assay.improve.experiments.watching import PromotionWatch, ShareWatch


def alarms(
    series: int,
    mean: float,
    later: float | None = None,
    correlation: float = 0.0,
    spread: float = 0.01,
    windows: int = 60,
    turns_at: int = 20,
) -> list[int]:
    """The window of the alarm in each series that has one."""
    seen = []
    for number in range(series):
        chance = random.Random(f"watch {number}")
        guard = PromotionWatch.of(margin=0.0, least_sd=spread / 2, allowed=0.01)
        noise = chance.gauss(0.0, spread)
        for window in range(windows):
            fresh = math.sqrt(1.0 - correlation**2) * chance.gauss(0.0, spread)
            noise = correlation * noise + fresh
            level = mean if later is None or window < turns_at else later
            bad = sum(chance.random() < 0.005 for _ in range(20)) / 20
            if guard.add(level + noise, bad):
                seen.append(window)
                break
    return seen


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_what_is_as_good_as_the_start_is_rarely_taken_back(correlation: float) -> None:
    # The hardest case: a change that has no gain at all left.
    assert len(alarms(100, 0.0, correlation=correlation)) <= 11


def test_a_gain_is_kept_in_noise_that_lasts() -> None:
    assert alarms(50, 0.03, correlation=0.8) == []


@pytest.mark.parametrize(("later", "within"), [(-0.05, 30), (-0.3, 10)])
def test_faster_first_and_slower_later_is_taken_back(later: float, within: int) -> None:
    seen = alarms(20, 0.1, later)
    assert len(seen) == 20
    assert all(20 < window <= 20 + within for window in seen)


def test_requests_that_miss_the_slo_are_seen() -> None:
    guard = ShareWatch(0.01)
    assert not any(guard.add(0.01) for _ in range(200))
    assert any(guard.add(0.2) for _ in range(10))
    # A single bad window of a neighbor is not enough.
    guard = ShareWatch(0.01)
    assert not any(guard.add(0.3 if window == 30 else 0.0) for window in range(60))


def test_a_window_without_a_figure_counts_by_its_failures() -> None:
    guard = PromotionWatch.of(margin=0.0, least_sd=0.01, allowed=0.01)
    assert "failed or missed the SLO" in next(
        filter(None, (guard.add(None, 1.0) for _ in range(9)))
    )
