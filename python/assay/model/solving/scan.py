"""Roots of one equation in one unknown: scan its range, then refine every sign change."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.array_types import Floats
from assay.model.solving.equations import Equations
from assay.model.solving.newton import Attempt, is_distinct, newton

if TYPE_CHECKING:
    pass


_DECADES = 36
_PER_DECADE = 24
_BETWEEN_BOUNDS = 1025
_MOST_BRACKETS = 16
_MOST_STARTS = 6
_SUBINTERVALS = 64
_MOST_MULTISECTIONS = 40


@dataclass(slots=True)
class LineScan:
    """Roots, and for error messages the discontinuities, edges of the domain and computed range."""

    roots: list[Attempt] = field(default_factory=list)
    closest: Attempt | None = None
    jumps: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    plateau: tuple[float, float] | None = None
    computed_range: tuple[float, float] | None = None

    def is_distinct(self, point: Floats) -> bool:
        """Whether a root differs from those found, plateau included."""
        low, high = self.plateau or (math.inf, -math.inf)
        return not low <= float(point[0]) <= high and is_distinct(point, self.roots)


def scan_line(equations: Equations, tolerance: float, start: float | None) -> LineScan:
    """Find the roots over the whole range of a single unknown, nearest to `start`, else to 0, first."""
    points = _grid(float(equations.lower[0]), float(equations.upper[0]), start)
    scan = _scan(equations, points, tolerance, start, iterate=True)
    if not scan.roots and scan.edges:
        # A root may lie in the last step before a pole or before the edge of the domain.
        shares = 10.0 ** -np.arange(1.0, 16.0)
        near = [edge * (1.0 + sign * shares) for edge in scan.edges for sign in (-1.0, 1.0)]
        inside = np.clip(np.concatenate(near), equations.lower[0], equations.upper[0])
        points = np.unique(np.concatenate([points, inside]))
        scan = _scan(equations, points, tolerance, start, iterate=True)
    return scan


def expand_line(equations: Equations, tolerance: float, center: float) -> LineScan:
    """The same where a point is expensive: widen the range around `center` until a sign changes."""
    lower, upper = float(equations.lower[0]), float(equations.upper[0])
    points = np.array([center])
    for decades in (0.5, 2.0, 6.0, 12.0):
        steps = 4 * math.ceil(2 * decades) + 1
        points = center * 10.0 ** np.linspace(-decades, decades, steps)
        if lower < 0:
            points = np.concatenate([-points[::-1], [0.0], points])
        if math.isfinite(lower) and math.isfinite(upper):
            points = np.concatenate([points, np.linspace(lower, upper, steps)])
        points = np.unique(np.clip(points, lower, upper))
        scan = _scan(equations, points, tolerance, center, iterate=False)
        if scan.roots:
            return scan
    return _scan(equations, points, tolerance, center, iterate=True)


def _grid(lower: float, upper: float, start: float | None) -> Floats:
    magnitudes = 10.0 ** np.linspace(-_DECADES, _DECADES, 2 * _DECADES * _PER_DECADE + 1)
    parts = [-magnitudes[::-1], np.zeros(1), magnitudes]
    parts += [np.array([end]) for end in (lower, upper) if math.isfinite(end)]
    if math.isfinite(lower) and math.isfinite(upper):
        parts.append(np.linspace(lower, upper, _BETWEEN_BOUNDS))
    if start is not None:
        parts.append(np.array([start]))
    points = np.unique(np.concatenate(parts))
    inside: Floats = points[(points >= lower) & (points <= upper)]
    return inside


def _scan(
    equations: Equations, points: Floats, tolerance: float, start: float | None, *, iterate: bool
) -> LineScan:
    scan = LineScan()
    computed, required = (side[0] for side in equations.sides(points[None, :]))
    with np.errstate(all="ignore"):
        residual = computed - required
    finite = np.isfinite(residual)
    if not finite.any():
        return scan
    scan.computed_range = float(computed[finite].min()), float(computed[finite].max())
    ends = np.flatnonzero(np.diff(finite))
    scan.edges = [float(points[end + 1 - int(finite[end + 1])]) for end in ends[:_MOST_BRACKETS]]
    _collect_zeros(scan, points, residual, start)
    _refine_brackets(scan, equations, points, residual, tolerance, start)
    scan.edges += scan.jumps
    order = np.argsort(np.where(finite, np.abs(residual), np.inf), kind="stable")
    starts = [] if start is None else [start]
    starts += [float(points[index]) for index in order[:_MOST_STARTS]]
    for first in starts if iterate else ():
        attempt = newton(equations, np.array([first]), tolerance)
        if scan.closest is None or attempt.misfit < scan.closest.misfit:
            scan.closest = attempt
        if attempt.misfit <= tolerance and scan.is_distinct(attempt.point):
            scan.roots.append(attempt)
    scan.roots.sort(key=lambda root: _distance(float(root.point[0]), start))
    return scan


def _collect_zeros(scan: LineScan, points: Floats, residual: Floats, start: float | None) -> None:
    """Points that solve the equation exactly; neighbors count as one solution."""
    exact = np.flatnonzero(residual == 0.0)
    for run in np.split(exact, np.flatnonzero(np.diff(exact) > 1) + 1):
        if len(run):
            nearest = min(run, key=lambda index: _distance(float(points[index]), start))
            scan.roots.append(Attempt(points[nearest : nearest + 1], 0.0, 0, "scan"))
            if len(run) > 1:
                scan.plateau = float(points[run[0]]), float(points[run[-1]])


def _refine_brackets(
    scan: LineScan,
    equations: Equations,
    points: Floats,
    residual: Floats,
    tolerance: float,
    start: float | None,
) -> None:
    refine = _multisection if equations.function.exact else _brent
    signs = np.sign(residual)
    brackets = sorted(
        np.flatnonzero(signs[:-1] * signs[1:] < 0),
        key=lambda left: _distance(float(points[left]), start),
    )
    for left in brackets[:_MOST_BRACKETS]:
        point, iterations = refine(equations, float(points[left]), float(points[left + 1]))
        misfit = equations.at(point).misfit
        # At a pole the residual changes sign without a root: it grows as the bracket shrinks.
        grows = abs(_residual(equations, point)[0]) > np.max(np.abs(residual[left : left + 2]))
        if misfit > tolerance or grows:
            scan.jumps.append(float(point[0]))
        elif scan.is_distinct(point):
            scan.roots.append(Attempt(point, misfit, iterations, "bracketing"))


def _residual(equations: Equations, points: Floats) -> Floats:
    computed, required = equations.sides(points[None, :])
    with np.errstate(all="ignore"):
        result: Floats = (computed - required)[0]
    return result


def _multisection(equations: Equations, low: float, high: float) -> tuple[Floats, int]:
    """Divide the bracket into many subintervals at once; a tape evaluates them as one call."""
    iterations = 0
    while True:
        iterations += 1
        points = np.unique(np.linspace(low, high, _SUBINTERVALS + 1))
        residual = _residual(equations, points)
        signs = np.sign(residual)
        bracket = np.flatnonzero(signs[:-1] * signs[1:] <= 0)
        if len(points) <= 2 or not len(bracket) or iterations == _MOST_MULTISECTIONS:
            best = int(np.nanargmin(np.abs(residual)))
            return points[best : best + 1], iterations
        low, high = float(points[bracket[0]]), float(points[bracket[0] + 1])


def _brent(equations: Equations, low: float, high: float) -> tuple[Floats, int]:
    """Brent's method: few points, each of which may be an integration."""
    from scipy.optimize import brentq

    def at(position: float) -> float:
        value = float(_residual(equations, np.array([position]))[0])
        # A hole between two finite ends counts as positive; its misfit shows that it is no root.
        return value if math.isfinite(value) else 1.0

    root, report = brentq(
        at, low, high, xtol=5e-324, rtol=4 * np.finfo(float).eps, maxiter=200, full_output=True
    )
    return np.array([root]), int(report.iterations)


def _distance(value: float, start: float | None) -> float:
    """Sort key of roots: distance from the start, else magnitude."""
    if start is None:
        return abs(value)
    if value * start > 0:
        return abs(math.log(value / start))
    return 1e3 + abs(value - start)
