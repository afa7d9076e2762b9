"""Roots of one equation in one unknown: scan its range, then close in on every crossing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.model.solving.equations import Equations
from assay.model.solving.newton import Attempt, is_new, newton

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_DECADES = 36
_PER_DECADE = 24
_BETWEEN_BOUNDS = 1025
_MOST_CROSSINGS = 16
_MOST_TOUCHES = 6
_SECTIONS = 64
_MOST_SECTIONINGS = 40


@dataclass(slots=True)
class Scan:
    """What a scan found: roots, and what explains their absence."""

    roots: list[Attempt] = field(default_factory=list)
    closest: Attempt | None = None
    jumps: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    plateau: tuple[float, float] | None = None
    reached: tuple[float, float] | None = None

    def is_new(self, point: Array) -> bool:
        """Whether a root differs from those found, plateau included."""
        low, high = self.plateau or (math.inf, -math.inf)
        return not low <= float(point[0]) <= high and is_new(point, self.roots)


def scan_line(equations: Equations, tolerance: float, start: float | None) -> Scan:
    """Find the roots over the whole range of a single unknown, nearest to `start`, else to 0, first."""
    points = _grid(float(equations.lower[0]), float(equations.upper[0]), start)
    scan = _scan(equations, points, tolerance, start, iterate=True)
    if not scan.roots and scan.edges:
        # A root may hide in the last step before a pole or before the values end.
        shares = 10.0 ** -np.arange(1.0, 16.0)
        near = [edge * (1.0 + sign * shares) for edge in scan.edges for sign in (-1.0, 1.0)]
        inside = np.clip(np.concatenate(near), equations.lower[0], equations.upper[0])
        points = np.unique(np.concatenate([points, inside]))
        scan = _scan(equations, points, tolerance, start, iterate=True)
    return scan


def expand_line(equations: Equations, tolerance: float, center: float) -> Scan:
    """The same where a point is expensive: look ever further from `center` until a crossing."""
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


def _grid(lower: float, upper: float, start: float | None) -> Array:
    magnitudes = 10.0 ** np.linspace(-_DECADES, _DECADES, 2 * _DECADES * _PER_DECADE + 1)
    parts = [-magnitudes[::-1], np.zeros(1), magnitudes]
    parts += [np.array([end]) for end in (lower, upper) if math.isfinite(end)]
    if math.isfinite(lower) and math.isfinite(upper):
        parts.append(np.linspace(lower, upper, _BETWEEN_BOUNDS))
    if start is not None:
        parts.append(np.array([start]))
    points = np.unique(np.concatenate(parts))
    inside: Array = points[(points >= lower) & (points <= upper)]
    return inside


def _scan(
    equations: Equations, points: Array, tolerance: float, start: float | None, *, iterate: bool
) -> Scan:
    scan = Scan()
    computed, wanted = (side[0] for side in equations.sides(points[None, :]))
    with np.errstate(all="ignore"):
        difference = computed - wanted
    finite = np.isfinite(difference)
    if not finite.any():
        return scan
    scan.reached = float(computed[finite].min()), float(computed[finite].max())
    ends = np.flatnonzero(np.diff(finite))
    scan.edges = [float(points[end + 1 - int(finite[end + 1])]) for end in ends[:_MOST_CROSSINGS]]
    _collect_zeros(scan, points, difference, start)
    _collect_crossings(scan, equations, points, difference, tolerance, start)
    scan.edges += scan.jumps
    order = np.argsort(np.where(finite, np.abs(difference), np.inf), kind="stable")
    starts = [] if start is None else [start]
    starts += [float(points[index]) for index in order[:_MOST_TOUCHES]]
    for first in starts if iterate else ():
        attempt = newton(equations, np.array([first]), tolerance)
        if scan.closest is None or attempt.misfit < scan.closest.misfit:
            scan.closest = attempt
        if attempt.misfit <= tolerance and scan.is_new(attempt.point):
            scan.roots.append(attempt)
    scan.roots.sort(key=lambda root: _distance(float(root.point[0]), start))
    return scan


def _collect_zeros(scan: Scan, points: Array, difference: Array, start: float | None) -> None:
    """Points that solve the equation exactly; neighbors count as one solution."""
    exact = np.flatnonzero(difference == 0.0)
    for run in np.split(exact, np.flatnonzero(np.diff(exact) > 1) + 1):
        if len(run):
            nearest = min(run, key=lambda index: _distance(float(points[index]), start))
            scan.roots.append(Attempt(points[nearest : nearest + 1], 0.0, 0, "scan"))
            if len(run) > 1:
                scan.plateau = float(points[run[0]]), float(points[run[-1]])


def _collect_crossings(
    scan: Scan,
    equations: Equations,
    points: Array,
    difference: Array,
    tolerance: float,
    start: float | None,
) -> None:
    close_in = _close_in_by_sections if equations.function.exact else _close_in_by_secants
    signs = np.sign(difference)
    crossings = sorted(
        np.flatnonzero(signs[:-1] * signs[1:] < 0),
        key=lambda left: _distance(float(points[left]), start),
    )
    for left in crossings[:_MOST_CROSSINGS]:
        point, iterations = close_in(equations, float(points[left]), float(points[left + 1]))
        misfit = equations.at(point).misfit
        # At a pole the sides change order without meeting: they part as the ends close in.
        apart = abs(_difference(equations, point)[0]) > np.max(np.abs(difference[left : left + 2]))
        if misfit > tolerance or apart:
            scan.jumps.append(float(point[0]))
        elif scan.is_new(point):
            scan.roots.append(Attempt(point, misfit, iterations, "bracketing"))


def _difference(equations: Equations, points: Array) -> Array:
    computed, wanted = equations.sides(points[None, :])
    with np.errstate(all="ignore"):
        result: Array = (computed - wanted)[0]
    return result


def _close_in_by_sections(equations: Equations, low: float, high: float) -> tuple[Array, int]:
    """Cut the interval into many at once, which costs a tape no more than one point."""
    sectionings = 0
    while True:
        sectionings += 1
        points = np.unique(np.linspace(low, high, _SECTIONS + 1))
        difference = _difference(equations, points)
        signs = np.sign(difference)
        crossing = np.flatnonzero(signs[:-1] * signs[1:] <= 0)
        if len(points) <= 2 or not len(crossing) or sectionings == _MOST_SECTIONINGS:
            best = int(np.nanargmin(np.abs(difference)))
            return points[best : best + 1], sectionings
        low, high = float(points[crossing[0]]), float(points[crossing[0] + 1])


def _close_in_by_secants(equations: Equations, low: float, high: float) -> tuple[Array, int]:
    """Brent's method: few points, each of which may be an integration."""
    from scipy.optimize import brentq

    def at(position: float) -> float:
        value = float(_difference(equations, np.array([position]))[0])
        # A hole between two finite ends counts as one side, and the misfit tells it from a root.
        return value if math.isfinite(value) else 1.0

    root, report = brentq(
        at, low, high, xtol=5e-324, rtol=4 * np.finfo(float).eps, maxiter=200, full_output=True
    )
    return np.array([root]), int(report.iterations)


def _distance(value: float, start: float | None) -> float:
    """What roots are ordered by: how far from the start, else how large."""
    if start is None:
        return abs(value)
    if value * start > 0:
        return abs(math.log(value / start))
    return 1e3 + abs(value - start)
