"""A predicted ratio of the objective, and the arithmetic of such ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from assay.intervals import Interval

Z90: Final = 1.645
"""Half a 90 % interval of a normal distribution, in standard deviations."""

MODEL_ERROR: Final = 0.15
"""Standard deviation of the logarithm of predicted over measured ratios: 0.148 (root mean square) over
168 changes that were predicted and then measured (bench/results/whatif-predictions-*.json and
whatif-outcomes-*.json), 90 % of which lie within 1.645 times that; the median error is 5.5 %, the tails
are heavy. Those predictions are of the planner and of fitted step costs, not of replays of launches."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The objective after over before (above 1 better) with its 90 % interval, and who says so."""

    ratio: Interval
    by: str


@dataclass(frozen=True, slots=True)
class Unpredictable:
    """Nothing can predict it, whatever other models would say: the reason."""

    reason: str


def between(lo: float, hi: float) -> Interval:
    """A ratio with known bounds only; its value is their geometric mean.

    >>> between(1.0, 4.0)
    Interval(value=2.0, lo=1.0, hi=4.0)
    """
    lo, hi = min(lo, hi), max(lo, hi)
    return Interval(math.sqrt(lo * hi), lo, hi)


def spread(value: float, log_error: float) -> Interval:
    """A ratio with the standard deviation of its logarithm."""
    half = math.exp(Z90 * log_error)
    return Interval(value, value / half, value * half)


def with_model_error(figure: Interval) -> Interval:
    """A figure whose interval also covers what models of steps miss; no change stays exact.

    >>> with_model_error(Interval(1.0, 1.0, 1.0))
    Interval(value=1.0, lo=1.0, hi=1.0)
    """
    if figure.value == figure.lo == figure.hi == 1.0:
        return figure
    error = Z90 * MODEL_ERROR
    below = math.hypot(math.log(figure.value / figure.lo), error)
    above = math.hypot(math.log(figure.hi / figure.value), error)
    return Interval(figure.value, figure.value * math.exp(-below), figure.value * math.exp(above))


def log_error(figure: Interval) -> float:
    """The standard deviation of the logarithm that an interval of 90 % stands for."""
    return math.log(figure.hi / figure.lo) / (2 * Z90)


def inverse(figure: Interval) -> Interval:
    """One over a ratio."""
    return Interval(1 / figure.value, 1 / figure.hi, 1 / figure.lo)


def amdahl(figure: Interval, share: float) -> Interval:
    """The ratio of the whole where only a share of the time becomes so much faster.

    >>> amdahl(Interval(2.0, 2.0, 2.0), 0.5).value
    1.3333333333333333
    """
    value, lo, hi = (1 / ((1 - share) + share / ratio) for ratio in figure)
    return Interval(value, min(lo, hi), max(lo, hi))


def pooled(figures: Iterable[Interval], least_error: float) -> Interval:
    """Several figures of one ratio, each weighed by its certainty."""
    weights = [
        (math.log(figure.value), 1 / max(log_error(figure), least_error) ** 2) for figure in figures
    ]
    total = sum(weight for _, weight in weights)
    mean = sum(log * weight for log, weight in weights) / total
    return spread(math.exp(mean), math.sqrt(1 / total))
