"""Queues in closed form: waiting in M/G/1 with bursts, and how many are in a shared server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from assay.errors import EvaluationError
from assay.lazy_import import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_POINTS: Final = 4096
"""Points of a distribution of waiting times."""
_REACH: Final = 12.0
"""Mean waiting times of those who wait that a distribution goes to: beyond it e^-12 are left."""
TAIL: Final = 1e-7
"""Probability of states beyond those that are counted."""
MOST_THERE: Final = 50_000
"""Requests in a server beyond which it counts as saturated."""


def waiting_times(
    rate: float, service: Numbers, weights: Numbers | None = None, dispersion: float = 1.0
) -> tuple[Numbers, Numbers]:
    """The distribution of waiting times in M/G/1 (first come, first served): times and its CDF.

    Pollaczek and Khinchine: the wait is a geometric sum of residual service times. Bursts are groups of
    geometric size whose count has the stated variance over mean. Raises where the load is 1 or more.

    >>> times, below = waiting_times(0.5, np.array([1.0]))
    >>> float(np.round(((1 - below) * np.diff(times, append=times[-1])).sum(), 2))
    0.5
    """
    shares = np.full(len(service), 1.0 / len(service)) if weights is None else weights
    mean = float(shares @ service)
    load = rate * mean
    if load >= 1:
        raise EvaluationError(f"{rate:g} requests/s need {load:.0%} of the time")
    if load <= 0:
        return np.array([0.0, 1.0]), np.array([1.0, 1.0])
    group = (dispersion + 1) / 2
    square = float(shares @ service**2)
    longest = float(service.max())
    # Mean wait of those who wait: it sets how far the distribution reaches.
    typical = (square / (2 * mean) + (group - 1) * mean) / (1 - load)
    step = (2 * longest + _REACH * (typical + group * mean)) / _POINTS
    circle = np.exp(-2j * math.pi * np.fft.rfftfreq(2 * _POINTS))
    single = _transform(service, shares, step)
    batch = single / (group - (group - 1) * single)
    mean_batch = group * mean / step
    residual = np.ones_like(batch)
    # Halfway between the residuals of both ends of a cell, so that their mean is right.
    residual[1:] = (1 - batch[1:]) * (1 + circle[1:]) / (2 * mean_batch * (1 - circle[1:]))
    waiting = (1 - load) / (1 - load * residual) / (group - (group - 1) * single)
    mass = np.fft.irfft(waiting, 2 * _POINTS)[:_POINTS]
    below = np.minimum(np.cumsum(np.maximum(mass, 0.0)), 1.0)
    # The mass at 0 are those who do not wait; others are spread evenly over their cell.
    times = np.linspace(0.0, step * (_POINTS - 1), _POINTS)
    return times, below


def _transform(service: Numbers, shares: Numbers, step: float) -> NDArray[np.complex128]:
    """The transform of service times on a grid; a time between two points is shared by them."""
    places = service / step
    low = places.astype(np.int64)
    part = places - low
    mass = np.zeros(2 * _POINTS)
    np.add.at(mass, low, shares * (1 - part))
    np.add.at(mass, low + 1, shares * part)
    transform: NDArray[np.complex128] = np.fft.rfft(mass)
    return transform


def inverse(times: Numbers, below: Numbers, uniform: Numbers) -> Numbers:
    """Times at quantiles of a distribution: those up to the mass at 0 are 0."""
    place = np.searchsorted(below, uniform, side="left")
    place = np.minimum(place, len(times) - 1)
    before = np.maximum(place - 1, 0)
    width = below[place] - below[before]
    part = np.where(width > 0, (uniform - below[before]) / np.where(width > 0, width, 1.0), 0.0)
    result: Numbers = np.where(
        place == 0, 0.0, times[before] + np.clip(part, 0, 1) * (times[place] - times[before])
    )
    return result


def number_there(
    arriving: float, leaving: Callable[[int], Numbers], most: int, noise: float = 1.0
) -> Numbers:
    """Probabilities of 0, 1, 2 ... requests: births at a rate, deaths by how many are there.

    `leaving(most)` are the rates of departure with 1 to `most` there; beyond, the rate stays. With processor
    sharing this holds for any distribution of lengths. `noise` is the variance of births over Poisson's.
    """
    rates = np.asarray(leaving(most), float)
    logs = np.concatenate([[0.0], np.cumsum(np.log(arriving / rates)) / noise])
    ratio = arriving / float(rates[-1])
    if ratio >= 1:
        raise EvaluationError(f"{arriving:g} requests/s are more than the server completes")
    if noise != 1.0:
        ratio = ratio ** (1 / noise)
    share = np.exp(logs - logs.max())
    last = float(share[-1])
    total = float(share.sum()) + last * ratio / (1 - ratio)
    if last / total > TAIL:
        more = math.ceil(math.log(TAIL * total / last) / math.log(ratio)) if ratio > 0 else 0
        if more > MOST_THERE:
            raise EvaluationError(f"{arriving:g} requests/s saturate the server")
        share = np.concatenate([share, last * ratio ** np.arange(1, more + 1)])
    result: Numbers = share / share.sum()
    return result
