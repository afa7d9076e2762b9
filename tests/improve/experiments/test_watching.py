"""The guard after promotion: rarely without reason, and soon after a change turns bad."""

import math

import pytest
from simulated_watch import alarms

from assay.improve.experiments.watching import PromotionWatch, ShareWatch


@pytest.mark.parametrize(("correlation", "before"), [(0.0, 0), (0.5, 0), (0.8, 0), (0.9, 24)])
def test_what_is_as_good_as_the_start_is_rarely_taken_back(correlation: float, before: int) -> None:
    # The hardest case: a change that has no gain at all left, in noise that lasts.
    assert len(alarms(100, 0.0, correlation=correlation, before=before)) <= 5


def test_the_a_a_experiment_tells_how_far_noise_lasts() -> None:
    """Windows that are alike to the one before say less than as many that are not."""
    steady = [0.02 * math.sin(window / 8.0) for window in range(48)]
    jumping = [0.02 * (-1.0) ** window for window in range(48)]
    later = [-0.03 + 0.002 * (-1.0) ** window for window in range(11)]
    seen = {}
    for name, before in (("steady", steady), ("jumping", jumping)):
        guard = PromotionWatch.of(margin=0.0, least_sd=0.01, allowed=0.01, before=before)
        seen[name] = any(guard.add(value, 0.0) for value in later)
    assert seen == {"steady": False, "jumping": True}


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
