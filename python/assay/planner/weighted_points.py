"""Distributions as points with probabilities: mixtures, sums, quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay.lazy_import import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Points = tuple["Array", "Array"]
"""Values and their probabilities."""

_LEVELS: Final = 201
_SUMMANDS: Final = 25
_SOLVED_STATES: Final = 96
"""States of a chain that is solved as linear equations: so few that no library starts threads."""
_LONGEST_FALL: Final = 32
"""States that a chain falls by at most, where leaving them out one by one takes less than a solver."""


def lognormal(center: float, spread: float) -> Points:
    """A lognormal distribution of this mean and spread as points, cut at three spreads."""
    steps = np.linspace(-3, 3, _LEVELS)
    weights = np.exp(-0.5 * steps**2)
    sigma = math.sqrt(math.log1p((spread / center) ** 2)) if center > 0 else 0.0
    return center * np.exp(sigma * steps - sigma**2 / 2), weights / weights.sum()


def scaled(points: Points, factor: float) -> Points:
    """All values times a factor."""
    return points[0] * factor, points[1]


def mixture(parts: Sequence[Points], weights: Array) -> Points:
    """What is drawn from a part that is drawn by its weight."""
    values = np.concatenate([values for values, _ in parts])
    shares = np.concatenate(
        [weight * share for weight, (_, share) in zip(weights, parts, strict=True)]
    )
    return values, shares / shares.sum()


def condensed(points: Points, most: int) -> Points:
    """At most so many points: those of as much probability are replaced by their mean.

    >>> values, shares = condensed((np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.25, 0.25])), 2)
    >>> values.tolist(), shares.tolist()
    ([1.5, 3.0], [0.5, 0.5])
    """
    values, shares = points
    if len(values) <= most:
        return points
    order = np.argsort(values)
    values, shares = values[order], shares[order]
    middles = np.cumsum(shares) - shares / 2
    places = np.minimum((middles * (most / shares.sum())).astype(int), most - 1)
    sums: Array = np.bincount(places, shares, most).astype(np.float64)
    taken = sums > 0
    return np.bincount(places, shares * values, most)[taken] / sums[taken], sums[taken]


def total(first: Points, second: Points, count: float) -> Points:
    """The first plus `count` times the second, taken as independent."""
    levels = (np.arange(_SUMMANDS) + 0.5) / _SUMMANDS
    both = (quantiles(first, levels)[:, None] + count * quantiles(second, levels)[None, :]).ravel()
    # Midpoints of levels miss the tails; the mean is exact.
    exact = mean(first) + count * mean(second)
    return both + (exact - both.mean()), np.full(both.size, 1.0 / both.size)


def quantiles(points: Points, levels: Sequence[float] | Array) -> Array:
    """The least values that so large a share is at or below."""
    order = np.argsort(points[0])
    positions = np.searchsorted(np.cumsum(points[1][order]), np.asarray(levels) * (1 - 1e-12))
    values: Array = points[0][order][np.minimum(positions, len(order) - 1)]
    return values


def share_below(points: Points, limit: float) -> float:
    """The probability of values up to a limit."""
    return float(points[1][points[0] <= limit].sum())


def mean(points: Points) -> float:
    """The expected value."""
    return float((points[0] * points[1]).sum())


def spread(points: Points) -> float:
    """The standard deviation."""
    return math.sqrt(max(float((points[0] ** 2 * points[1]).sum()) - mean(points) ** 2, 0.0))


def poisson(expected: float, count: int) -> Array:
    """Probabilities of 0 to `count - 1` arrivals, the last with all beyond."""
    numbers = np.arange(count)
    if expected <= 0:
        none: Array = (numbers == 0).astype(np.float64)
        return none
    logs = numbers * math.log(expected) - expected - np.cumsum(np.log(np.maximum(numbers, 1)))
    probabilities: Array = np.exp(logs)
    probabilities[-1] += max(1.0 - float(probabilities.sum()), 0.0)
    probabilities /= probabilities.sum()
    return probabilities


def likely_arrivals(expected: float) -> Array:
    """Probabilities of 0, 1, 2 ... arrivals, up to those that are likely."""
    return poisson(expected, max(8, int(expected + 6 * math.sqrt(expected) + 6)))


def stationary(moves: Array) -> Array:
    """The distribution that a chain keeps, by its probabilities of moves from row to column."""
    falls = len(moves) - 1 - int(np.argmax(moves[-1] > 0))
    is_banded = len(moves) > _SOLVED_STATES and falls <= _LONGEST_FALL
    probabilities = _eliminated(moves) if is_banded else _solved(moves)
    probabilities /= probabilities.sum()
    return probabilities


def _solved(moves: Array) -> Array:
    system = moves.T - np.eye(len(moves))
    # The rows add up to nothing: the last says that probabilities add up to one.
    system[-1] = 1.0
    target = np.zeros(len(moves))
    target[-1] = 1.0
    probabilities: Array = np.clip(np.linalg.solve(system, target), 0.0, None)
    return probabilities


def _eliminated(moves: Array) -> Array:
    """States are left out one by one, the last first (Grassmann, Taksar and Heyman 1985).

    Nothing is subtracted, so that no digit is lost, and nothing starts threads: those of a linear-algebra
    library wait for each other where other programs keep the cores busy.
    """
    through = moves.copy()
    for last in range(len(moves) - 1, 0, -1):
        down = through[last, :last]
        lowest = int(np.argmax(down > 0))
        down = down[lowest:]
        # By way of the state that is left out, as often as it is entered.
        through[:last, last] /= down.sum()
        through[:last, lowest:last] += through[:last, last, None] * down
    probabilities = np.ones(len(moves))
    for state in range(1, len(moves)):
        probabilities[state] = probabilities[:state] @ through[:state, state]
    return probabilities
