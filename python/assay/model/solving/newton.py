"""Damped Newton in logarithmic coordinates where signs allow, else in linear ones.

Positive unknowns are iterated by their logarithm and positive sides compared by ratio, which makes
products and powers, most of the stack, linear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.array_types import Floats
from assay.model.solving.equations import Equations, EquationState

if TYPE_CHECKING:
    pass


_COORDINATES = ((True, True), (True, False), (False, False))
_MOST_ITERATIONS = 80
_STALL_ITERATIONS = 12
_HALVINGS = 0.5 ** np.arange(24.0)
_LARGEST_LOG_STEP = math.log(1e3)
_START_POINTS = 384
_DISTINCT = 1e-6


@dataclass(frozen=True, slots=True)
class Attempt:
    """The end point of an iteration and its misfit."""

    point: Floats
    misfit: float
    iterations: int
    method: str


def newton(equations: Equations, start: Floats, tolerance: float) -> Attempt:
    """Iterate in each kind of coordinates until one converges; else the end with least misfit."""
    attempts = []
    for log_point, log_sides in _COORDINATES:
        coordinates = _Coordinates(equations, start, log_point=log_point, log_sides=log_sides)
        attempt = coordinates.iterate(tolerance)
        if attempt.misfit <= tolerance:
            return attempt
        attempts.append(attempt)
    return min(attempts, key=lambda attempt: attempt.misfit)


class _Coordinates:
    """Unknowns and sides on a logarithmic or linear scale."""

    def __init__(
        self, equations: Equations, start: Floats, *, log_point: bool, log_sides: bool
    ) -> None:
        self.equations = equations
        self.start = np.clip(start, equations.lower, equations.upper)
        self.logged = (equations.lower >= 0) & log_point
        self.log_sides = log_sides
        self.size = np.where(self.start == 0.0, 1.0, np.abs(self.start))

    def iterate(self, tolerance: float) -> Attempt:
        """Iterate until the residual is zero, no step reduces it, or progress stalls."""
        if (self.start[self.logged] <= 0).any():
            return Attempt(self.start, math.inf, 0, "newton")
        state = self.equations.at(self.start)
        best, best_iteration, milestone = state, 0, state.misfit
        for iteration in range(1, _MOST_ITERATIONS + 1):
            step = self._step(state)
            moved = None if step is None else self._line_search(state, step)
            if moved is None:
                break
            state = self.equations.at(moved)
            converged = best.misfit <= tolerance and state.misfit > 0.5 * best.misfit
            if state.misfit < best.misfit:
                best, best_iteration = state, iteration
            if converged or state.misfit == 0.0:
                break
            if iteration % _STALL_ITERATIONS == 0:
                if best.misfit > 0.5 * milestone:
                    break
                milestone = best.misfit
        return Attempt(best.point, best.misfit, best_iteration, "newton")

    def _residual(self, computed: Floats, required: Floats, scale: Floats) -> Floats:
        if self.log_sides:
            return np.where((computed > 0) & (required > 0), np.log(computed / required), np.nan)
        result: Floats = (computed - required) / scale
        return result

    def _step(self, state: EquationState) -> Floats | None:
        """The Newton step in these coordinates; None where the Jacobian is not finite."""
        with np.errstate(all="ignore"):
            residual = self._residual(state.computed, state.required, state.scale)
            if self.log_sides:
                matrix = state.computed_jacobian / state.computed[:, None]
                matrix = matrix - state.required_jacobian / state.required[:, None]
            else:
                matrix = state.jacobian / state.scale[:, None]
            matrix = matrix * np.where(self.logged, state.point, self.size)
        if not (np.isfinite(matrix).all() and np.isfinite(residual).all()):
            return None
        step = np.asarray(np.linalg.lstsq(matrix, -residual, rcond=None)[0], dtype=np.float64)
        if not np.isfinite(step).all():
            return None
        largest = float(np.max(np.abs(step[self.logged]), initial=0.0))
        return step * min(1.0, _LARGEST_LOG_STEP / largest) if largest else step

    def _line_search(self, state: EquationState, step: Floats) -> Floats | None:
        """Backtracking: the longest step length that reduces the residual.

        A tape evaluates all lengths at once at the cost of one; without a tape one at a time.
        """
        scale = state.scale[:, None]
        one_by_one = [_HALVINGS[k : k + 1] for k in range(len(_HALVINGS))]
        with np.errstate(all="ignore"):
            here = np.sum(self._residual(state.computed, state.required, state.scale) ** 2)
            for lengths in [_HALVINGS] if self.equations.function.exact else one_by_one:
                trial = self._moved(state.point, step[:, None] * lengths)
                residual = self._residual(*self.equations.sides(trial), scale)
                better = np.sum(residual**2, axis=0) < (1.0 - 1e-4 * lengths) * here
                if better.any():
                    point: Floats = trial[:, int(np.argmax(better))]
                    return point
        return None

    def _moved(self, point: Floats, moves: Floats) -> Floats:
        linear = point[:, None] + self.size[:, None] * moves
        trial = np.where(self.logged[:, None], point[:, None] * np.exp(moves), linear)
        lower, upper = self.equations.lower[:, None], self.equations.upper[:, None]
        result: Floats = np.clip(trial, lower, upper)
        return result


def quasi_random_starts(equations: Equations, center: Floats, count: int) -> Iterator[Floats]:
    """Starting points with the smallest residuals, from quasi-random points around a center."""
    for decades in (3.0, 10.0, 30.0):
        points = _points_around(equations, center, decades)
        with np.errstate(all="ignore"):
            computed, required = equations.sides(points)
            ratio = np.abs(np.log(np.abs(computed / required)))
            residual = np.where(computed * required > 0, ratio, 100.0 + np.abs(computed - required))
            residual = np.where(required == 0.0, np.abs(computed), residual)
            score = np.sum(np.where(np.isfinite(residual), residual, 1e300), axis=0)
        for index in np.argsort(score, kind="stable")[:count]:
            yield points[:, index]


def _points_around(equations: Equations, center: Floats, decades: float) -> Floats:
    """Points of an R-sequence: logarithmic around the center, or linear between two bounds."""
    shares = r_sequence(len(center), _START_POINTS)
    points = np.empty_like(shares)
    for row, (low, high) in enumerate(zip(equations.lower, equations.upper, strict=True)):
        size = abs(center[row]) or 1.0
        points[row] = size * 10.0 ** (decades * (2.0 * shares[row] - 1.0))
        if low < 0:
            points[row, 1::2] *= -1.0
        if math.isfinite(low) and math.isfinite(high):
            points[row, ::4] = low + (high - low) * shares[row, ::4]
    result: Floats = np.clip(points, equations.lower[:, None], equations.upper[:, None])
    return result


def r_sequence(dimension: int, count: int) -> Floats:
    """Evenly spread points of the unit cube, one per column (R-sequence, Roberts 2018).

    The root of x^(d+1) = x + 1 generalizes the golden ratio to d dimensions.
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1))
    steps = ratio ** -np.arange(1.0, dimension + 1)
    points: Floats = (0.5 + np.outer(steps, np.arange(count))) % 1.0
    return points


def is_distinct(point: Floats, known: Sequence[Attempt]) -> bool:
    """Whether a point differs from every root found so far."""
    return all(
        np.max(np.abs(point - root.point) / np.maximum(np.abs(point), np.abs(root.point) + 1e-300))
        > _DISTINCT
        for root in known
    )
