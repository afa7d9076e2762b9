"""Watches of simulated series: when each was taken back."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from assay.improve.experiments.watching import PromotionWatch


def alarms(
    series: int,
    mean: float,
    later: float | None = None,
    correlation: float = 0.0,
    spread: float = 0.01,
    windows: int = 60,
    turns_at: int = 20,
    before: int = 0,
) -> list[int]:
    """The window of the alarm in each series that has one.

    Log-ratios have this mean, or another after a time, and AR(1) noise; one request in 200 is bad.
    So many windows of equal settings were measured `before`.
    """
    seen = []
    for number in range(series):
        chance = random.Random(f"watch {number}")
        noise = _lasting(chance, correlation, spread)
        equal = [next(noise) for _ in range(before)]
        guard = PromotionWatch.of(margin=0.0, least_sd=spread / 2, allowed=0.01, before=equal)
        for window in range(windows):
            level = mean if later is None or window < turns_at else later
            bad = sum(chance.random() < 0.005 for _ in range(20)) / 20
            if guard.add(level + next(noise), bad):
                seen.append(window)
                break
    return seen


def _lasting(chance: random.Random, correlation: float, spread: float) -> Iterator[float]:
    """AR(1) noise."""
    noise = chance.gauss(0.0, spread)
    while True:
        noise = correlation * noise + math.sqrt(1.0 - correlation**2) * chance.gauss(0.0, spread)
        yield noise
