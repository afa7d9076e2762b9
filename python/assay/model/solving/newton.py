"""Damped Newton, in the coordinates that make the stack's equations straight.

Positive unknowns move in logarithms and positive sides are compared by ratio, which turns
products and powers, the bulk of the stack, into straight lines. Where a sign gets in the way,
the same is tried in plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.model.solving.equations import Equations, Place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_FORMS = ((True, True), (True, False), (False, False))
_MOST_ITERATIONS = 80
_PATIENCE = 12
_HALVINGS = 0.5 ** np.arange(24.0)
_LARGEST_LOG_STEP = math.log(1e3)
_CLOUD = 384
_DISTINCT = 1e-6


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where an iteration ended, and how far apart the sides are there."""

    point: Array
    misfit: float
    iterations: int
    method: str


def newton(equations: Equations, start: Array, tolerance: float) -> Attempt:
    """Iterate in each form in turn until one converges; else the closest end of all."""
    attempts = []
    for log_point, log_sides in _FORMS:
        form = _Form(equations, start, log_point=log_point, log_sides=log_sides)
        attempt = form.iterate(tolerance)
        if attempt.misfit <= tolerance:
            return attempt
        attempts.append(attempt)
    return min(attempts, key=lambda attempt: attempt.misfit)


class _Form:
    """One way to measure unknowns and sides: by logarithm or by plain number."""

    def __init__(
        self, equations: Equations, start: Array, *, log_point: bool, log_sides: bool
    ) -> None:
        self.equations = equations
        self.start = np.clip(start, equations.lower, equations.upper)
        self.logged = (equations.lower >= 0) & log_point
        self.log_sides = log_sides
        self.size = np.where(self.start == 0.0, 1.0, np.abs(self.start))

    def iterate(self, tolerance: float) -> Attempt:
        """Go on until the sides agree, no step brings them closer, or progress dies."""
        if (self.start[self.logged] <= 0).any():
            return Attempt(self.start, math.inf, 0, "newton")
        place = self.equations.at(self.start)
        best, best_iteration, milestone = place, 0, place.misfit
        for iteration in range(1, _MOST_ITERATIONS + 1):
            step = self._step(place)
            moved = None if step is None else self._line_search(place, step)
            if moved is None:
                break
            place = self.equations.at(moved)
            settled = best.misfit <= tolerance and place.misfit > 0.5 * best.misfit
            if place.misfit < best.misfit:
                best, best_iteration = place, iteration
            if settled or place.misfit == 0.0:
                break
            if iteration % _PATIENCE == 0:
                if best.misfit > 0.5 * milestone:
                    break
                milestone = best.misfit
        return Attempt(best.point, best.misfit, best_iteration, "newton")

    def _residual(self, computed: Array, wanted: Array, scale: Array) -> Array:
        if self.log_sides:
            return np.where((computed > 0) & (wanted > 0), np.log(computed / wanted), np.nan)
        result: Array = (computed - wanted) / scale
        return result

    def _step(self, place: Place) -> Array | None:
        """The Newton step in the coordinates in use; None where there is none."""
        with np.errstate(all="ignore"):
            residual = self._residual(place.computed, place.wanted, place.scale)
            if self.log_sides:
                matrix = place.computed_slopes / place.computed[:, None]
                matrix = matrix - place.wanted_slopes / place.wanted[:, None]
            else:
                matrix = place.slopes / place.scale[:, None]
            matrix = matrix * np.where(self.logged, place.point, self.size)
        if not (np.isfinite(matrix).all() and np.isfinite(residual).all()):
            return None
        step = np.asarray(np.linalg.lstsq(matrix, -residual, rcond=None)[0], dtype=np.float64)
        if not np.isfinite(step).all():
            return None
        largest = float(np.max(np.abs(step[self.logged]), initial=0.0))
        return step * min(1.0, _LARGEST_LOG_STEP / largest) if largest else step

    def _line_search(self, place: Place, step: Array) -> Array | None:
        """The longest of ever shorter steps that brings the sides closer.

        A tape takes them all at once for the price of one; what is resolved is taken singly.
        """
        scale = place.scale[:, None]
        singly = [_HALVINGS[k : k + 1] for k in range(len(_HALVINGS))]
        with np.errstate(all="ignore"):
            here = np.sum(self._residual(place.computed, place.wanted, place.scale) ** 2)
            for lengths in [_HALVINGS] if self.equations.function.exact else singly:
                trial = self._moved(place.point, step[:, None] * lengths)
                residual = self._residual(*self.equations.sides(trial), scale)
                better = np.sum(residual**2, axis=0) < (1.0 - 1e-4 * lengths) * here
                if better.any():
                    found: Array = trial[:, int(np.argmax(better))]
                    return found
        return None

    def _moved(self, point: Array, moves: Array) -> Array:
        along = point[:, None] + self.size[:, None] * moves
        trial = np.where(self.logged[:, None], point[:, None] * np.exp(moves), along)
        lower, upper = self.equations.lower[:, None], self.equations.upper[:, None]
        result: Array = np.clip(trial, lower, upper)
        return result


def cloud_starts(equations: Equations, center: Array, count: int) -> Iterator[Array]:
    """Starts whose sides are closest, from ever wider clouds of points around a center."""
    for decades in (3.0, 10.0, 30.0):
        points = _cloud(equations, center, decades)
        with np.errstate(all="ignore"):
            computed, wanted = equations.sides(points)
            ratio = np.abs(np.log(np.abs(computed / wanted)))
            apart = np.where(computed * wanted > 0, ratio, 100.0 + np.abs(computed - wanted))
            apart = np.where(wanted == 0.0, np.abs(computed), apart)
            score = np.sum(np.where(np.isfinite(apart), apart, 1e300), axis=0)
        for index in np.argsort(score, kind="stable")[:count]:
            yield points[:, index]


def _cloud(equations: Equations, center: Array, decades: float) -> Array:
    """Evenly spread points: logarithmic around the center, or linear between two bounds."""
    shares = spread(len(center), _CLOUD)
    points = np.empty_like(shares)
    for row, (low, high) in enumerate(zip(equations.lower, equations.upper, strict=True)):
        size = abs(center[row]) or 1.0
        points[row] = size * 10.0 ** (decades * (2.0 * shares[row] - 1.0))
        if low < 0:
            points[row, 1::2] *= -1.0
        if math.isfinite(low) and math.isfinite(high):
            points[row, ::4] = low + (high - low) * shares[row, ::4]
    result: Array = np.clip(points, equations.lower[:, None], equations.upper[:, None])
    return result


def spread(dimension: int, count: int) -> Array:
    """Evenly spread points of the unit cube, one per column."""
    # The root of x^(d+1) = x + 1 generalizes the golden ratio to d dimensions.
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1))
    steps = ratio ** -np.arange(1.0, dimension + 1)
    points: Array = (0.5 + np.outer(steps, np.arange(count))) % 1.0
    return points


def is_new(point: Array, known: Sequence[Attempt]) -> bool:
    """Whether a point differs from every root found so far."""
    return all(
        np.max(np.abs(point - root.point) / np.maximum(np.abs(point), np.abs(root.point) + 1e-300))
        > _DISTINCT
        for root in known
    )
