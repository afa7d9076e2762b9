"""The level of a metric in blocks of one arm: a median and an interval without assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.intervals import Interval


def level(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """The median with its order-statistic interval; None without values.

    The interval between the k-th smallest and the k-th largest value holds the true median unless
    fewer than k of n fair coins show one side: exact for any distribution. Below six values even
    the extremes hold it with less than 95 %: they are the interval then (`coverage` says how sure).

    >>> level([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    Interval(value=3.5, lo=1.0, hi=6.0)
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return None
    middle = count // 2
    median = ordered[middle] if count % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])
    place = _rank(count, confidence)
    return Interval(median, ordered[place], ordered[count - 1 - place])


def _rank(count: int, confidence: float) -> int:
    """The most values that may be left out at each end; 0 keeps the extremes."""
    tail, place = 0.0, 0
    while place < (count - 1) // 2:
        tail += math.comb(count, place) / 2**count
        if 2 * tail + 2 * math.comb(count, place + 1) / 2**count > 1 - confidence:
            break
        place += 1
    return place


def coverage(count: int, confidence: float = 0.95) -> float:
    """The confidence that the interval of `level` really has.

    >>> coverage(3), coverage(6)
    (0.75, 0.96875)
    """
    if not count:
        return 0.0
    place = _rank(count, confidence)
    outside: int = 2 * sum(math.comb(count, below) for below in range(place + 1))
    return 1 - outside / float(2**count)
