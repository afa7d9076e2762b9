"""Watches of simulated series: when each was taken back."""

from __future__ import annotations

import math
import random

from assay.improve.experiments.watching import PromotionWatch


def alarms(
    series: int,
    mean: float,
    later: float | None = None,
    correlation: float = 0.0,
    spread: float = 0.01,
    windows: int = 60,
    turns_at: int = 20,
) -> list[int]:
    """The window of the alarm in each series that has one.

    Log-ratios have this mean, or another after a time, and AR(1) noise; one request in 200 is bad.
    """
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
