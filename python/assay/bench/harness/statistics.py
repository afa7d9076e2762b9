"""Medians and what is known of them: no shape of the distribution is assumed anywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """Bounds that hold the true value with the stated confidence."""

    low: float
    high: float


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of all lies, between neighbors in proportion.

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
    """Bounds of the median from the order of the values; None where they are too few.

    Each value lies below the median with probability one half, so that how many do is binomial:
    the interval leaves out as many at each end as that allows.

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
    """Bounds of the ratio of two medians of positive values that were not measured in pairs.

    Each median is bounded so that both bounds hold together with the stated confidence.
    """
    share = 1.0 - (1.0 - CONFIDENCE) / 2.0
    top, bottom = median_interval(over, share), median_interval(under, share)
    if top is None or bottom is None or bottom.low <= 0.0:
        return None
    return Interval(top.low / bottom.high, top.high / bottom.low)
