"""Damped Newton on a few simultaneous equations whose sizes differ by many decades.

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.model.points import PointFunction
    from assay.model.variables import Variable

    Array = NDArray[np.float64]

MAX_ITERATIONS = 80
FORMS = ((True, True), (True, False), (False, False))
"""Whether unknowns move in logarithms, and whether sides are compared by ratio."""

_HALVINGS = 0.5 ** np.arange(24.0)
_LARGEST_LOG_STEP = math.log(1e3)
_SENSITIVITY_SHARE = 0.01
_CLOUD = 384
_DISTINCT = 1e-6


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where an iteration ended: `misfit` is the largest scaled difference of the two sides."""

    point: Array
    misfit: float
    iterations: int
    method: str


class Equations:
    """Left and right sides over some unknowns, everything else held fixed.

    A wanted side is a number, or the position of the input that it equals.
    """

    def __init__(
        self,
        function: PointFunction,
        unknowns: Sequence[Variable],
        wanted: Sequence[float],
        positions: Sequence[int],
        upstream: Sequence[float],
    ) -> None:
        """Take a wanted number where the position is -1, else the input at that position."""
        self.function = function
        self.unknowns = list(unknowns)
        self.lower = np.array([variable.lower for variable in unknowns])
        self.upper = np.array([variable.upper for variable in unknowns])
        self._wanted = np.array(wanted)[:, None]
        self._positions = np.array(positions)
        self._upstream = np.array(upstream, dtype=np.float64)[:, None]

    def sides(self, points: Array) -> tuple[Array, Array]:
        """Computed and wanted sides, each of shape (equations, points)."""
        count = points.shape[1]
        columns = np.vstack([points, np.repeat(self._upstream, count, axis=1)])
        own = columns[np.maximum(self._positions, 0)]
        wanted = np.where(self._positions[:, None] >= 0, own, self._wanted)
        return self.function(columns), wanted

    def slopes(self, point: Array) -> tuple[Array, Array]:
        """Derivatives of the computed and of the wanted sides by the unknowns."""
        count = len(point)
        computed = self.function.jacobian(np.concatenate([point, self._upstream[:, 0]]), count)
        wanted = np.zeros_like(computed)
        for row, position in enumerate(self._positions):
            if 0 <= position < count:
                wanted[row, position] = 1.0
        return computed, wanted

    def scale(self, point: Array, wanted: Array, slopes: Array) -> Array:
        """By what a difference of the sides is judged.

        The wanted value, or a share of what the unknowns' own sizes amount to where the value
        is the small difference of large ones.
        """
        sensitivity = np.abs(slopes) @ np.abs(point)
        sensitivity[~np.isfinite(sensitivity)] = 0.0
        scale: Array = np.maximum(np.abs(wanted), _SENSITIVITY_SHARE * sensitivity)
        scale[scale == 0.0] = np.finfo(float).tiny
        return scale

    def misfit(self, point: Array) -> float:
        """The largest scaled difference of the sides at a point; infinite where there is none."""
        with np.errstate(all="ignore"):
            computed, wanted = (side[:, 0] for side in self.sides(point[:, None]))
            difference = computed - wanted
            if not np.isfinite(difference).all():
                return math.inf
            if not difference.any():
                return 0.0
            slopes = np.subtract(*self.slopes(point))
            return float(np.max(np.abs(difference) / self.scale(point, wanted, slopes)))


def newton(
    equations: Equations, start: Array, tolerance: float, *, log_point: bool, log_sides: bool
) -> Attempt:
    """Iterate from a start until the sides agree or no step improves them."""
    logged = (equations.lower >= 0) & log_point
    point = np.clip(start, equations.lower, equations.upper)
    if (point[logged] <= 0).any():
        return Attempt(point, math.inf, 0, "newton")
    size = np.where(point == 0.0, 1.0, np.abs(point))
    best = Attempt(point, equations.misfit(point), 0, "newton")
    for iteration in range(1, MAX_ITERATIONS + 1):
        step = _step(equations, point, logged, size, log_sides)
        if step is None:
            break
        moved = _line_search(equations, point, step, logged, size, log_sides)
        if moved is None:
            break
        misfit = equations.misfit(moved)
        done = best.misfit <= tolerance and misfit > 0.5 * best.misfit
        if misfit < best.misfit:
            best = Attempt(moved, misfit, iteration, "newton")
        if done or misfit == 0.0:
            break
        point = moved
    return best


def _residual(computed: Array, wanted: Array, scale: Array, log_sides: bool) -> Array:
    with np.errstate(all="ignore"):
        if log_sides:
            return np.where((computed > 0) & (wanted > 0), np.log(computed / wanted), np.nan)
        result: Array = (computed - wanted) / scale
        return result


def _step(
    equations: Equations, point: Array, logged: NDArray[np.bool_], size: Array, log_sides: bool
) -> Array | None:
    """The Newton step in the coordinates in use; None where there is none."""
    computed, wanted = (side[:, 0] for side in equations.sides(point[:, None]))
    slopes, own = equations.slopes(point)
    scale = equations.scale(point, wanted, slopes - own)
    residual = _residual(computed, wanted, scale, log_sides)
    with np.errstate(all="ignore"):
        by_ratio = slopes / computed[:, None] - own / wanted[:, None]
        matrix = by_ratio if log_sides else (slopes - own) / scale[:, None]
        matrix = matrix * np.where(logged, point, size)
    if not (np.isfinite(matrix).all() and np.isfinite(residual).all()):
        return None
    step = np.asarray(np.linalg.lstsq(matrix, -residual, rcond=None)[0], dtype=np.float64)
    if not np.isfinite(step).all():
        return None
    largest = float(np.max(np.abs(step[logged]), initial=0.0))
    return step * min(1.0, _LARGEST_LOG_STEP / largest) if largest else step


def _line_search(
    equations: Equations,
    point: Array,
    step: Array,
    logged: NDArray[np.bool_],
    size: Array,
    log_sides: bool,
) -> Array | None:
    """The longest of ever shorter steps that brings the sides closer, all tried at once."""
    lengths = np.concatenate([[0.0], _HALVINGS])
    moves = step[:, None] * lengths
    with np.errstate(all="ignore"):
        trial = np.where(
            logged[:, None], point[:, None] * np.exp(moves), point[:, None] + size[:, None] * moves
        )
        trial = np.clip(trial, equations.lower[:, None], equations.upper[:, None])
        computed, wanted = equations.sides(trial)
        slopes = np.subtract(*equations.slopes(point))
        scale = equations.scale(point, wanted[:, 0], slopes)[:, None]
        merit = np.sum(_residual(computed, wanted, scale, log_sides) ** 2, axis=0)
    better = merit[1:] < (1.0 - 1e-4 * _HALVINGS) * merit[0]
    if not better.any():
        return None
    found: Array = trial[:, 1 + int(np.argmax(better))]
    return found


def newton_any_form(equations: Equations, start: Array, tolerance: float) -> Attempt:
    """Iterate in each form in turn until one converges; else the closest end of all."""
    attempts = []
    for log_point, log_sides in FORMS:
        attempt = newton(equations, start, tolerance, log_point=log_point, log_sides=log_sides)
        if attempt.misfit <= tolerance:
            return attempt
        attempts.append(attempt)
    return min(attempts, key=lambda attempt: attempt.misfit)


def cloud_starts(equations: Equations, centre: Array, count: int) -> Iterator[Array]:
    """Starts whose sides are closest, from ever wider clouds of points around a centre."""
    for decades in (3.0, 10.0, 30.0):
        points = _cloud(equations, centre, decades)
        with np.errstate(all="ignore"):
            computed, wanted = equations.sides(points)
            ratio = np.abs(np.log(np.abs(computed / wanted)))
            apart = np.where(computed * wanted > 0, ratio, 100.0 + np.abs(computed - wanted))
            apart = np.where(wanted == 0.0, np.abs(computed), apart)
            score = np.sum(np.where(np.isfinite(apart), apart, 1e300), axis=0)
        for index in np.argsort(score, kind="stable")[:count]:
            yield points[:, index]


def _cloud(equations: Equations, centre: Array, decades: float) -> Array:
    """Evenly spread points: logarithmic around the centre, or linear between two bounds."""
    shares = spread(len(centre), _CLOUD)
    points = np.empty_like(shares)
    for row, (low, high) in enumerate(zip(equations.lower, equations.upper, strict=True)):
        size = abs(centre[row]) or 1.0
        points[row] = size * 10.0 ** (decades * (2.0 * shares[row] - 1.0))
        if low < 0:
            points[row, 1::2] *= -1.0
        if math.isfinite(low) and math.isfinite(high):
            points[row, ::4] = low + (high - low) * shares[row, ::4]
    result: Array = np.clip(points, equations.lower[:, None], equations.upper[:, None])
    return result


def spread(dimension: int, count: int) -> Array:
    """Evenly spread points of the unit cube, one per column."""
    # The root of x^(d+1) = x + 1 generalises the golden ratio to d dimensions.
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
