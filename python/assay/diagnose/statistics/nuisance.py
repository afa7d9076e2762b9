"""The models inside an estimate: of the outcome, and of who is treated; splines with a penalty.

Neither is the answer. An estimate that is doubly robust is right where one of the two is, and its
error is the product of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.array_types import Floats

_KNOTS: Final = (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975)
"""Quantiles of the knots of a restricted cubic spline, as Harrell's Regression Modeling has them."""

_MAX_PRODUCTS: Final = 28
"""Pairwise products enter while there are at most so many: eight covariates."""

_PENALTIES: Final = np.logspace(-6, 4, 21)
_LOGISTIC_PENALTIES: Final = np.logspace(2, -2, 5)
_MAX_ITERATIONS: Final = 25


@dataclass(frozen=True, slots=True)
class Basis:
    """Covariates as columns of a regression: linear, splines of each, products of each two.

    Beyond the outermost knots a restricted cubic spline is a straight line: a sample outside the
    range of the others is not sent to infinity by a cube.
    """

    center: Floats
    scale: Floats
    knots: tuple[Floats | None, ...]

    @classmethod
    def of(cls, covariates: Floats) -> Basis:
        """Centers, scales and knots of these samples."""
        center = covariates.mean(axis=0)
        scale = covariates.std(axis=0)
        scale[scale == 0.0] = 1.0
        standard = (covariates - center) / scale
        knots_by_column: list[Floats | None] = []
        for column in standard.T:
            knots = np.unique(np.quantile(column, _KNOTS))
            # A covariate of two or three values has no curvature to fit.
            knots_by_column.append(
                knots if len(knots) >= 4 and len(np.unique(column)) > 6 else None
            )
        return cls(center, scale, tuple(knots_by_column))

    def __call__(self, covariates: Floats) -> Floats:
        """The columns for other samples."""
        standard = (covariates - self.center) / self.scale
        columns = [standard]
        for values, knots in zip(standard.T, self.knots, strict=True):
            if knots is not None:
                columns.append(_restricted_cubic(values, knots))
        width = standard.shape[1]
        if width > 1 and width * (width - 1) // 2 <= _MAX_PRODUCTS:
            first, second = np.triu_indices(width, 1)
            columns.append(standard[:, first] * standard[:, second])
        return np.concatenate(columns, axis=1)


def _restricted_cubic(values: Floats, knots: Floats) -> Floats:
    """The curved columns of a restricted cubic spline (the linear one is apart)."""
    last, before = knots[-1], knots[-2]
    span = (knots[-1] - knots[0]) ** 2

    def cube(at: float) -> Floats:
        return np.maximum(values - at, 0.0) ** 3

    columns = [
        (
            cube(knot)
            - cube(before) * (last - knot) / (last - before)
            + cube(last) * (before - knot) / (last - before)
        )
        / span
        for knot in knots[:-2]
    ]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True)
class Linear:
    """A fitted linear function of columns."""

    center: Floats
    scale: Floats
    intercept: float
    slopes: Floats

    def __call__(self, columns: Floats) -> Floats:
        """Its values."""
        result: Floats = self.intercept + ((columns - self.center) / self.scale) @ self.slopes
        return result


def standardized(columns: Floats) -> tuple[Floats, Floats, Floats]:
    """Columns with mean zero and standard deviation one; their centers and scales."""
    center, scale = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(scale == 0.0, 1.0, scale)
    return (columns - center) / scale, center, scale


def ridge(columns: Floats, outcome: Floats) -> Linear:
    """Ridge regression; generalized cross-validation (Golub, Heath, Wahba 1979) sets the penalty."""
    design, center, scale = standardized(columns)
    count = len(outcome)
    mean = float(outcome.mean())
    centered = outcome - mean
    values, vectors = np.linalg.eigh(design.T @ design)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ (design.T @ centered)
    penalties = _PENALTIES * count
    shrunk = values + penalties[:, None]
    residual = float(centered @ centered) - np.sum(
        rotated**2 * (values + 2.0 * penalties[:, None]) / shrunk**2, axis=1
    )
    freedom = 1.0 + np.sum(values / shrunk, axis=1)
    spare = count - freedom
    score = np.where(spare > 0.5, residual / np.maximum(spare, 0.5) ** 2, np.inf)
    best = int(np.argmin(score))
    return Linear(center, scale, mean, vectors @ (rotated / shrunk[best]))


@dataclass(frozen=True, slots=True)
class Propensity:
    """The chance of treatment as a logistic function of columns."""

    linear: Linear

    def __call__(self, columns: Floats) -> Floats:
        """Its values, between 0 and 1."""
        return _logistic(self.linear(columns))


def logistic_ridge(columns: Floats, treated: Floats) -> Propensity:
    """Logistic regression; Akaike's criterion with effective parameters sets the penalty."""
    design, center, scale = standardized(columns)
    design = np.concatenate([np.ones((len(design), 1)), design], axis=1)
    share = min(max(float(treated.mean()), 1e-6), 1.0 - 1e-6)
    start = np.zeros(design.shape[1])
    start[0] = np.log(share / (1.0 - share))
    best: tuple[float, Floats] | None = None
    # From strong to weak: each fit starts where the one before ended.
    for penalty in _LOGISTIC_PENALTIES:
        start, criterion = _newton(design, treated, penalty, start)
        if best is None or criterion < best[0]:
            best = (criterion, start)
    assert best is not None
    return Propensity(Linear(center, scale, float(best[1][0]), best[1][1:]))


def _newton(design: Floats, treated: Floats, penalty: float, start: Floats) -> tuple[Floats, float]:
    """Penalized Newton iterations; the coefficients and Akaike's criterion."""
    weights_of = np.full(design.shape[1], penalty)
    weights_of[0] = 0.0
    coefficients = start
    curvature = information = np.empty((0, 0))
    for _ in range(_MAX_ITERATIONS):
        chance = _logistic(design @ coefficients)
        weight = np.maximum(chance * (1.0 - chance), 1e-9)
        information = (design * weight[:, None]).T @ design
        curvature = information + np.diag(weights_of + 1e-9)
        gradient = design.T @ (treated - chance) - weights_of * coefficients
        step = np.linalg.solve(curvature, gradient)
        # A long step of a nearly separated fit overshoots.
        step *= min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        coefficients = coefficients + step
        if float(np.abs(step).max()) < 1e-6:
            break
    linear = design @ coefficients
    deviance = 2.0 * float(np.sum(np.logaddexp(0.0, linear) - treated * linear))
    freedom = float(np.trace(np.linalg.solve(curvature, information)))
    return coefficients, deviance + 2.0 * freedom


def _logistic(linear: Floats) -> Floats:
    result: Floats = 1.0 / (1.0 + np.exp(-np.clip(linear, -35.0, 35.0)))
    return result
