"""Medians and their confidence intervals, without assumptions about the distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile, interpolated linearly between samples.

    >>> quantile([4.0, 1.0, 2.0], 0.5), quantile([0.0, 10.0], 0.25)
    (2.0, 2.5)
    """
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Confidence interval of the median from order statistics; None for too few values.

    The number of values below the median is binomial with p = 1/2: the interval drops as many
    values at each end as the confidence allows.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    Interval(low=1.0, high=6.0)
    >>> median_interval([1.0, 2.0, 3.0]) is None
    True
    """
    count = len(values)
    outside, cut = 0.0, -1
    while cut + 1 < (count + 1) // 2:
        outside += 2.0 * math.comb(count, cut + 1) / 2.0**count
        if outside > 1.0 - confidence:
            break
        cut += 1
    if cut < 0:
        return None
    ordered = sorted(values)
    return Interval(ordered[cut], ordered[count - 1 - cut])


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> Interval | None:
    """Confidence interval of the ratio of two medians of unpaired positive samples.

    Each median has an interval at half the error rate (Bonferroni), so that both hold together.
    """
    share = 1.0 - (1.0 - CONFIDENCE) / 2.0
    top, bottom = median_interval(over, share), median_interval(under, share)
    if top is None or bottom is None or bottom.low <= 0.0:
        return None
    return Interval(top.low / bottom.high, top.high / bottom.low)
