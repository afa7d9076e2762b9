"""Confidence sequence for the mean of paired log-ratios: valid at every look.

A mixture of anytime-valid t-tests. For a prior N(0, g) on the standardized effect and Jeffreys'
prior on the variance, the Bayes factor against a mean m is a test martingale under m for every
variance (Goenen et al. 2005; Wang and Ramdas 2023, "Anytime-valid t-tests and confidence
sequences for Gaussian means with unknown variance"). The sequence is the set of means that Ville's
inequality does not reject: martingale < 1 / alpha. Averaging over several g keeps it a martingale
and decides both effects of a fraction of the noise and effects of many times the noise soon.

Robbins' normal mixture (Howard et al. 2021) needs a bound on the variance, and the betting
sequences of Waudby-Smith and Ramdas (2023) bounded outcomes; ratios of throughputs have neither.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from assay.intervals import Interval

ALPHA: Final = 0.05
"""Chance that the interval misses the true mean at any look; half of it on either side."""
EFFECT_SCALES: Final = (1.0, 2500.0)
"""Variances g of the prior on mean over standard deviation. The first is for gains near the noise,
the second lets gains far above it be decided after two pairs."""
CLIP_SPREADS: Final = 4.0
"""A log-ratio counts as at most this many robust standard deviations from the median before it."""
LEAST_BEFORE_CLIPPING: Final = 6


class Design(NamedTuple):
    """What is known of pairs before they are measured; it can only widen the interval."""

    shares_starts: bool = False
    """Whether each pair has a start in common with the next: A..A B..B, B..B A..A, and again."""
    least_sd: float = 0.0
    """Standard deviation of pairs of equal settings (A/A): two pairs that agree do not belie it."""
    start_half: float = 0.0
    """Half-width for what differs between two servers of equal settings that keep running: no number
    of pairs between them averages it out."""
    clips: bool = True
    """Whether outliers are clipped. Not where pairs may come from two modes: half of them are equal
    then, their robust spread is next to nothing, and what is clipped is the noise itself."""

    def variance_factor(self, count: int) -> float:
        """Variance of the mean of pairs over what their own spread says.

        What differs from start to start is half of the variance of neighbors that share one: of n
        pairs the mean varies by (4 - 2/n)/n and their spread shows 2 - 2/n of a start's variance,
        where independent pairs would show n times the former. 3 for two pairs, toward 2 for many;
        too much where blocks vary as well, which only widens the interval.

        >>> [round(Design(shares_starts=True).variance_factor(count), 3) for count in (2, 3, 4)]
        [3.0, 2.5, 2.333]
        """
        return (2 * count - 1) / (count - 1) if self.shares_starts and count > 1 else 1.0


INDEPENDENT: Final = Design()
"""Pairs that share nothing, and of which nothing is known."""


class ConfidenceSequence:
    """Takes log-ratios one by one; the interval may be looked at after each."""

    def __init__(self, alpha: float = ALPHA, design: Design = INDEPENDENT) -> None:
        """Start with nothing seen."""
        self.alpha = alpha
        self.design = design
        self.count = 0
        self._ordered: list[float] = []
        self._mean = 0.0
        self._squares = 0.0

    def add(self, log_ratio: float) -> Interval:
        """The interval after one more log-ratio."""
        value = self._clipped(log_ratio)
        bisect.insort(self._ordered, log_ratio)
        self.count += 1
        change = value - self._mean
        self._mean += change / self.count
        self._squares += change * (value - self._mean)
        return self.interval

    @property
    def interval(self) -> Interval:
        """What is known of the mean log-ratio now; infinite where too little was seen."""
        if self.count == 0:
            return Interval(0.0, -math.inf, math.inf)
        squares = max(self._squares, (self.count - 1) * self.design.least_sd**2)
        squares *= self.design.variance_factor(self.count)
        half = math.hypot(half_width(self.count, squares, self.alpha), self.design.start_half)
        return Interval(self._mean, self._mean - half, self._mean + half)

    @property
    def deviation(self) -> float:
        """Standard deviation of what was seen; 0 before the second value."""
        return math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0

    def _clipped(self, value: float) -> float:
        """The value, no further from the median of those before it than the clip allows.

        The bounds come from earlier values only, so the sequence may still be stopped at any time.
        A neighbor that takes the machine for one block then costs a little power and not the
        experiment.
        """
        if self.count < LEAST_BEFORE_CLIPPING or not self.design.clips:
            return value
        center = _median(self._ordered)
        spread = 1.4826 * _median(sorted(abs(seen - center) for seen in self._ordered))
        bound = CLIP_SPREADS * max(spread, _RESOLUTION)
        return min(max(value, center - bound), center + bound)


def interval(log_ratios: Iterable[float], alpha: float = ALPHA) -> Interval:
    """The interval after these log-ratios, in order of time.

    >>> interval([0.30, 0.31, 0.29, 0.30]).lo > 0.1
    True
    """
    sequence = ConfidenceSequence(alpha)
    for value in log_ratios:
        sequence.add(value)
    return sequence.interval


def half_width(count: int, squares: float, alpha: float = ALPHA) -> float:
    """Half the interval's width, from the number of values and their squared deviations."""
    limit = _largest_statistic(count, alpha)
    # Exactly equal values say that the noise is below the clock's resolution, not that it is zero.
    return math.sqrt(limit * max(squares, count * _RESOLUTION**2) / count)


_RESOLUTION: Final = 1e-9


def log_martingale(statistic: float, count: int) -> float:
    """Logarithm of the mixture; `statistic` is count (mean - m)^2 / squared deviations."""
    terms = [
        -0.5 * math.log1p(count * scale)
        + 0.5 * count * (math.log1p(statistic) - math.log1p(statistic / (1.0 + count * scale)))
        for scale in EFFECT_SCALES
    ]
    highest = max(terms)
    average = math.fsum(math.exp(term - highest) for term in terms) / len(terms)
    return highest + math.log(average)


@functools.cache
def _largest_statistic(count: int, alpha: float) -> float:
    """The statistic at which the martingale reaches 1 / alpha: it grows with the statistic."""
    if count < 2:
        return math.inf
    wanted = -math.log(alpha)
    low, high = 0.0, 1.0
    while log_martingale(high, count) < wanted:
        low, high = high, high * 4.0
        if high > _MOST_STATISTIC:
            return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_martingale(middle, count) < wanted else (low, middle)
    return high


_MOST_STATISTIC: Final = 1e12


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return 0.5 * (ordered[middle - 1] + ordered[middle])
