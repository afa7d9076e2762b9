"""Slopes of step time on delay: a regression in each block, and a robust interval over blocks.

A block holds every delay once and controls without one, in random order, so that what drifts from
block to block (clocks, temperature, other processes) is in the intercept of its block. The slopes
of blocks are independent; their pseudomedian (Hodges and Lehmann 1963) has an exact interval from
Wilcoxon's signed-rank distribution, which a few disturbed blocks do not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import Final, NamedTuple

from assay.intervals import Interval

CRITICAL_ABOVE: Final = 0.75
HIDDEN_BELOW: Final = 0.25
"""A slope whose interval is above or below is critical or hidden."""
PARTLY_WITHIN: Final = (0.1, 0.9)
"""A slope whose interval is inside, and is neither of these, is partly hidden."""
STRICTEST: Final = 4
"""Groups of this many nodes and more are held to a quarter of the tolerance."""


class Observation(NamedTuple):
    """One run: the delay of a step, and how long a step took."""

    delay_ns: float
    step_ns: float


def block_slope(treated: Sequence[Observation], controls_ns: Sequence[float]) -> float:
    """The least-squares slope of one block through the median of its controls.

    >>> block_slope([Observation(10, 111), Observation(20, 121)], [100, 101, 400])
    1.0
    """
    control = median(controls_ns)
    weight = sum(trial.delay_ns**2 for trial in treated)
    if not weight:
        raise ValueError("a block without a delay has no slope")
    return sum(trial.delay_ns * (trial.step_ns - control) for trial in treated) / weight


def pseudomedian(values: Sequence[float], alpha: float) -> Interval | None:
    """The Hodges-Lehmann estimate and its exact interval of confidence 1 - alpha.

    None where there are too few values for such an interval.

    >>> pseudomedian([1, 2, 3, 4, 5, 6], 0.05)
    Interval(value=3.5, lo=1.0, hi=6.0)
    >>> pseudomedian([1, 2, 3, 4, 5], 0.05)
    """
    rank = _lower_rank(len(values), alpha)
    if not rank:
        return None
    walsh = sorted(
        (first + second) / 2 for index, first in enumerate(values) for second in values[index:]
    )
    return Interval(median(walsh), walsh[rank - 1], walsh[-rank])


@lru_cache(maxsize=256)
def _lower_rank(count: int, alpha: float) -> int:
    """The rank of the Walsh average that bounds the interval; 0 where the sample is too small."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    tail, limit = 0, alpha / 2 * 2**count
    for total, number in enumerate(ways):
        tail += number
        if tail > limit:
            return total
    return 0


def verdict(slope: Interval | None, nodes: int = 1) -> str:
    """What an interval says: critical, hidden, partly hidden or undecided.

    Of a group of nodes that may differ, the slope is the mean of theirs: it must be nearer to 1 or 0
    before all of them are called critical or hidden.

    >>> verdict(Interval(1.0, 0.9, 1.1)), verdict(Interval(0.02, -0.1, 0.1))
    ('critical', 'hidden')
    >>> verdict(Interval(0.5, 0.3, 0.7)), verdict(Interval(0.5, -0.1, 1.1))
    ('partly hidden', 'undecided')
    >>> verdict(Interval(0.2, 0.15, 0.24)), verdict(Interval(0.2, 0.15, 0.24), nodes=5)
    ('hidden', 'partly hidden')
    """
    if slope is None:
        return "undecided"
    parts = min(nodes, STRICTEST)
    if slope.lo > 1 - (1 - CRITICAL_ABOVE) / parts:
        return "critical"
    if slope.hi < HIDDEN_BELOW / parts:
        return "hidden"
    least, most = PARTLY_WITHIN
    return "partly hidden" if slope.lo > least and slope.hi < most else "undecided"
