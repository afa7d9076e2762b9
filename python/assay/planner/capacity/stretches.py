"""Stretches of steady arrivals in a recording: a rate that changes is not burstiness.

Arrivals are counted in windows, and the recording is cut where its rate changes by more than chance explains (optimal
partitioning: Jackson et al. 2005, An algorithm for optimal partitioning of data on an interval). Chance is that of
counts with the variance between neighboring windows, which a slow change leaves alone (von Neumann et al. 1941, The
mean square successive difference). What varies inside of a stretch is what bursts are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from assay.lazy_import import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

WINDOW: Final = 10.0
"""Seconds of the windows in which arrivals are counted."""
STEADY: Final = 60.0
"""The shortest stretch, in seconds: longer than most requests stay in a server, so that it is about as full as it
gets. A rate that holds for less is a burst."""
LEAST_WINDOWS: Final = 12
"""Windows without which nothing is said of how arrivals vary."""
_MOST_WINDOWS: Final = 8192
"""Windows between which cuts are looked for."""
_COUNTED: Final = 10.0
"""Arrivals that these windows have on average, so that a variance can be told from few of them."""
_PENALTY: Final = 3.0
"""Logarithms of the windows that twice the log likelihood ratio of a cut must exceed (Zhang and Siegmund 2007, A
modified Bayes information criterion)."""
_KEPT: Final = 0.75
"""Share of the differences between windows that chance is told by: the largest may be changes of the rate."""
_KEPT_MEAN: Final = 0.3685
"""Mean of the smallest three quarters of squares of normal variables: P(chi2_3 < q) / 0.75 with q their quartile."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time of one rate."""

    start: float
    """Seconds after the first arrival."""
    seconds: float
    rate: float


@dataclass(frozen=True)
class Steadiness:
    """How the arrivals of a recording vary."""

    stretches: tuple[Stretch, ...]
    dispersion: float
    """Variance over mean of counts in windows, inside of stretches: 1 for a Poisson process."""

    def busiest(self, start: float, end: float) -> Stretch | None:
        """The stretch of the highest rate between two times; None where that is shorter than any stretch.

        One that reaches in by less than half of the shortest is not there: cuts are not exact.
        """
        if end - start < STEADY:
            return None
        inside = [
            stretch
            for stretch in self.stretches
            if min(end, stretch.start + stretch.seconds) - max(start, stretch.start) >= STEADY / 2
        ]
        return max(inside, key=lambda stretch: stretch.rate, default=None)


def steadiness(times: Numbers, span: float, bin_seconds: float) -> Steadiness:
    """The stretches of arrivals that begin at 0, and their dispersion, in bins that are looked at apart."""
    count = int(span // WINDOW)
    if count < LEAST_WINDOWS:
        return Steadiness((Stretch(0.0, span, len(times) / span),), 1.0)
    ends = [0.0, *_cuts(times, span), span]
    places = [*np.searchsorted(times, ends[:-1]).tolist(), len(times)]
    stretches = tuple(
        Stretch(begin, end - begin, (last - first) / (end - begin))
        for (begin, end), (first, last) in zip(pairwise(ends), pairwise(places), strict=True)
    )
    counts = np.histogram(times, bins=count, range=(0.0, count * WINDOW))[0].astype(float)
    middles = (np.arange(count) + 0.5) * WINDOW
    own = np.searchsorted(np.array(ends[1:-1]), middles)
    bins = (middles // bin_seconds).astype(int)
    return Steadiness(stretches, _dispersion(counts, own, bins))


def _dispersion(counts: Numbers, stretches: NDArray[np.int64], bins: NDArray[np.int64]) -> float:
    """Variance over mean inside of the windows that share a stretch and a bin."""
    changes = np.flatnonzero(np.diff(stretches) | np.diff(bins)) + 1
    variance = mean = 0.0
    for part in np.split(counts, changes):
        if len(part) > 1:
            variance += float(part.var(ddof=1)) * len(part)
            mean += float(part.sum())
    return max(variance / mean, 1.0) if mean > 0 else 1.0


def _cuts(times: Numbers, span: float) -> list[float]:
    """The times that stretches begin at, after the first."""
    width = max(WINDOW, span / _MOST_WINDOWS, _COUNTED * span / len(times))
    count = int(span // width)
    shortest = max(math.ceil(STEADY / width), 2)
    if count < 2 * shortest:
        return []
    counts = np.histogram(times, bins=count, range=(0.0, count * width))[0].astype(float)
    needed = _PENALTY * math.log(count) * _chance(counts)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    # Of the windows up to each: the least sum of costs of stretches, and where the last of them begins.
    least = np.full(count + 1, np.inf)
    least[0] = -needed
    begins = np.zeros(count + 1, dtype=np.int64)
    for end in range(shortest, count + 1):
        total = below[end] - below[: end - shortest + 1]
        windows = np.arange(end, shortest - 1, -1)
        # Minus twice the log likelihood of Poisson counts at their mean, without what all partitions share.
        costs = least[: end - shortest + 1] - 2 * total * np.log(np.maximum(total, 1.0) / windows)
        begins[end] = int(costs.argmin())
        least[end] = costs[begins[end]] + needed
    cuts: list[float] = []
    at = int(begins[count])
    while at > 0:
        cuts.append(at * width)
        at = int(begins[at])
    return cuts[::-1]


def _chance(counts: Numbers) -> float:
    """Variance over mean of neighboring windows, 1 or more."""
    sums = counts[1:] + counts[:-1]
    squares = np.sort(np.diff(counts) ** 2 / np.maximum(sums, 1.0))
    kept = squares[: max(int(_KEPT * len(squares)), 1)]
    return max(float(kept.mean()) / _KEPT_MEAN, 1.0)
