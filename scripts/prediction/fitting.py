"""Fits that stay near what is known: constants with a prior value and a relative spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """What is believed of a constant before the fit, and why."""

    value: float
    spread: float
    meaning: str
    family: str = "*"
    """The accelerator family that it belongs to, or all of them."""
    limit: float = math.inf


def pseudo_huber(errors: Vector) -> Vector:
    """Residuals whose squares grow linearly beyond one, so that outliers do not rule."""
    shrunk: Vector = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
    return shrunk


def starting_point(priors: Sequence[tuple[str, Prior]]) -> Vector:
    """Logarithms of the prior values."""
    return np.log([prior.value for _, prior in priors])


def constants(priors: Sequence[tuple[str, Prior]], point: Vector, family: str) -> dict[str, float]:
    """The constants of one accelerator family at a point of the fit."""
    return {
        name: min(math.exp(value), prior.limit)
        for (name, prior), value in zip(priors, point, strict=True)
        if prior.family in ("*", family)
    }


def fit(
    priors: Sequence[tuple[str, Prior]],
    log_ratios: Callable[[Vector], Vector],
    weights: Vector,
    scale: float,
    start: Vector | None = None,
    evaluations: int = 8,
) -> Vector:
    """The most probable constants given logarithms of predicted over observed."""
    mean = starting_point(priors)
    spread = np.array([prior.spread for _, prior in priors])

    def residuals(point: Vector) -> Vector:
        errors = pseudo_huber(log_ratios(point) * weights / scale)
        return np.concatenate([errors, (point - mean) / spread])

    begin = mean if start is None else start
    found: Vector = least_squares(
        residuals, begin, diff_step=[1e-3] * len(priors), max_nfev=evaluations
    ).x
    return found
