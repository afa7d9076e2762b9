"""Local refinement of continuous choices under constraints, from many starts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.array_types import Flags, Floats
from assay.model.language.expression import Operation, postorder
from assay.model.optimizing.choices import Continuous
from assay.model.optimizing.constraint_checks import ConstraintCheck
from assay.model.solving.newton import r_sequence

if TYPE_CHECKING:
    from assay.model.tapes.points import PointFunction


ACTIVE = 1e-6
"""A constraint is active when its margin is at most this share of its median size."""

_STARTS = 6
_ZOOM_ROUNDS = 14
_ZOOM_POINTS = 1024
_PULL_BACK = np.concatenate([[0.0], 10.0 ** np.arange(-15.0, -2.0)])
_DISTANCE = 1e-7
_FLAT = 1e-12
"""Slope up to which a margin is not moved by a choice."""
_MOST_ITERATIONS = 200


@dataclass(frozen=True, slots=True)
class Refined:
    """A feasible point as shares of the ranges, and the active constraints there."""

    value: float
    shares: Floats
    active: tuple[str, ...]


def sample_shares(dimension: int, most: int) -> Floats:
    """Points of the unit cube: a full grid while it is fine enough, else an R-sequence."""
    if dimension == 0:
        return np.empty((0, 1))
    count = int(most ** (1.0 / dimension) + 1e-9)
    if count >= 5:
        ends = np.linspace(0.0, 1.0, count)
        return np.array(np.meshgrid(*[ends] * dimension, indexing="ij")).reshape(dimension, -1)
    return r_sequence(dimension, most)


class Refiner:
    """Minimizes the first row of `conditions` over ranges, where its other rows are true.

    `margins` has the same rows, with the checks as signed margins. The inputs of both are fixed
    ones, then the ranges.
    """

    def __init__(
        self,
        conditions: PointFunction,
        margins: PointFunction,
        checks: Sequence[ConstraintCheck],
        ranges: Sequence[Continuous],
    ) -> None:
        """Take a check for each row after the first."""
        self.conditions = conditions
        self.margins = margins
        self.checks = checks
        self.ranges = ranges
        names = {choice.variable.name for choice in ranges}
        # An equality has no margin: such checks only filter.
        self.smooth = np.array(
            [bool(c.choices & names) and not _is_logical(c) for c in checks], dtype=bool
        )

    def refine(self, fixed: Floats, samples: Floats) -> Refined | None:
        """The best feasible point for fixed values of the other choices; None if there is none."""
        values, holds = self._evaluate(fixed, samples)
        defined = np.isfinite(values)
        if not defined.any():
            return None
        scales = self._scales(fixed, samples)
        feasible = defined & holds
        anchor = _best(samples, values, feasible)
        starts = list(self._starts(fixed, samples, values, feasible, scales))

        def descend(tighten: float) -> list[Floats]:
            sampled = values[defined]
            return [self._descend(fixed, start, sampled, scales, tighten) for start in starts]

        if anchor is None:
            # Descending with tightened constraints may end at a feasible point although no sample
            # is feasible.
            inside = np.array(descend(_DISTANCE)).reshape(-1, len(samples)).T
            if inside.shape[1]:
                reached, holds = self._evaluate(fixed, inside)
                anchor = _best(inside, reached, np.isfinite(reached) & holds)
        if anchor is None:
            return None
        candidates = [anchor, self._zoom(fixed, anchor)]
        candidates += [self._pull_inside(fixed, end, anchor) for end in descend(0.0)]
        points = np.array(candidates).T
        reached, holds = self._evaluate(fixed, points)
        index = int(np.argmin(np.where(np.isfinite(reached) & holds, reached, np.inf)))
        shares = points[:, index]
        return Refined(float(reached[index]), shares, self._active(fixed, shares, scales))

    def prices(self, point: Floats, active: Sequence[str]) -> dict[str, float]:
        """Lagrange multipliers of active constraints at an optimum: gain per unit of slack.

        The gradient of the objective over the ranges, less that of the ranges' ends, is a
        combination of the gradients of the active margins; its coefficients are the prices.
        """
        rows = [row for row, check in enumerate(self.checks) if check.name in active]
        if not rows:
            return {}
        first = len(point) - len(self.ranges)
        inside = [
            first + i
            for i, choice in enumerate(self.ranges)
            if ACTIVE < choice.share_of(float(point[first + i])) < 1 - ACTIVE
        ]
        slopes = self.margins.jacobian(point)[:, inside]
        if not inside or not np.isfinite(slopes[[0, *(1 + row for row in rows)]]).all():
            return {}
        # A margin that no choice moves, such as that of a part that is zero everywhere, has no price.
        rows = [row for row in rows if np.any(np.abs(slopes[1 + row]) > _FLAT)]
        gradients = slopes[[1 + row for row in rows]]
        coefficients, _, rank, _ = np.linalg.lstsq(gradients.T, slopes[0], rcond=None)
        if rank < len(rows):
            # Prices of constraints that say the same here are not unique.
            return {}
        return {
            self.checks[row].name: max(0.0, float(price))
            for row, price in zip(rows, coefficients, strict=True)
        }

    def values_at(self, shares: Floats) -> Floats:
        """Values of the ranges at shares of them, one row each."""
        rows = [choice.at(row) for choice, row in zip(self.ranges, shares, strict=True)]
        return np.array(rows)

    def _columns(self, fixed: Floats, shares: Floats) -> Floats:
        repeated = np.repeat(fixed[:, None], shares.shape[1], axis=1)
        return np.vstack([repeated, self.values_at(shares)])

    def _evaluate(self, fixed: Floats, shares: Floats) -> tuple[Floats, Flags]:
        with np.errstate(all="ignore"):
            rows = self.conditions(self._columns(fixed, shares))
        holds: Flags = np.all(rows[1:] > 0, axis=0)
        return rows[0], holds

    def _margins(self, fixed: Floats, shares: Floats) -> Floats:
        with np.errstate(all="ignore"):
            rows: Floats = self.margins(self._columns(fixed, shares))[1:]
        return rows

    def _scales(self, fixed: Floats, samples: Floats) -> Floats:
        sizes = np.abs(self._margins(fixed, samples))
        usable = np.isfinite(sizes) & (sizes > 0)
        return np.array(
            [
                np.median(row[mask]) if mask.any() else 1.0
                for row, mask in zip(sizes, usable, strict=True)
            ]
        )

    def _starts(
        self, fixed: Floats, samples: Floats, values: Floats, feasible: Flags, scales: Floats
    ) -> Iterator[Floats]:
        """The best feasible samples, then those that violate least."""
        order = np.argsort(np.where(feasible, values, np.inf), kind="stable")
        best = order[: min(_STARTS, int(np.count_nonzero(feasible)))]
        yield from (samples[:, index] for index in best)
        violation = np.maximum(-self._margins(fixed, samples) / scales[:, None], 0.0).sum(axis=0)
        violation[~np.isfinite(values) | ~np.isfinite(violation) | feasible] = np.inf
        worse = np.argsort(violation, kind="stable")[: 2 if len(best) else _STARTS]
        yield from (samples[:, index] for index in worse if math.isfinite(violation[index]))

    def _zoom(self, fixed: Floats, center: Floats) -> Floats:
        """Random search in shrinking boxes around the best point; robust to kinks and steps."""
        rounds, count = (_ZOOM_ROUNDS, _ZOOM_POINTS) if self.conditions.exact else (4, 24)
        offsets = r_sequence(len(center), count)
        for step in range(rounds):
            points = np.clip(center[:, None] + (2 * offsets - 1) * 0.5 ** (step + 1), 0.0, 1.0)
            points[:, 0] = center
            values, holds = self._evaluate(fixed, points)
            center_or_none = _best(points, values, np.isfinite(values) & holds)
            center = center if center_or_none is None else center_or_none
        return center

    def _descend(
        self, fixed: Floats, start: Floats, sampled: Floats, scales: Floats, tighten: float
    ) -> Floats:
        """Sequential quadratic programming (SLSQP) with exact gradients and constraints tightened."""
        from scipy import optimize

        minimize: Any = optimize.minimize
        best = float(sampled.min())
        size = float(np.median(sampled)) - best or abs(best) or 1.0
        used = np.concatenate([[False], self.smooth])

        def rows(shares: Floats) -> Floats:
            with np.errstate(all="ignore"):
                return self.margins(self._columns(fixed, shares[:, None]))[:, 0]

        def slopes(shares: Floats) -> Floats:
            values = self.values_at(shares[:, None])[:, 0]
            table = self.margins.jacobian(np.concatenate([fixed, values]))[:, len(fixed) :]
            by_share = [c.slope(float(v)) for c, v in zip(self.ranges, values, strict=True)]
            return _finite(table * np.array(by_share), 0.0, 0.0)

        def objective(shares: Floats) -> float:
            value = float(rows(shares)[0]) / size
            return value if math.isfinite(value) else 1e30

        constraints = []
        if self.smooth.any():
            chosen = scales[self.smooth]
            constraints.append({
                "type": "ineq",
                "fun": lambda shares: _finite(rows(shares)[used] / chosen - tighten, -1.0, 1e6),
                "jac": lambda shares: slopes(shares)[used] / chosen[:, None],
            })  # fmt: skip
        with warnings.catch_warnings():
            # Steps beyond the ranges are clipped by the method and mentioned in a warning.
            warnings.simplefilter("ignore")
            result = minimize(
                objective, start, jac=lambda shares: slopes(shares)[0] / size,
                method="SLSQP", bounds=[(0.0, 1.0)] * len(start), constraints=constraints,
                options={"maxiter": _MOST_ITERATIONS, "ftol": 1e-14},
            )  # fmt: skip
        return np.clip(_finite(result.x, 0.5, 1.0), 0.0, 1.0)

    def _pull_inside(self, fixed: Floats, end: Floats, anchor: Floats) -> Floats:
        """The nearest point toward a feasible one at which every check holds exactly."""
        points = end[:, None] + (anchor - end)[:, None] * _PULL_BACK
        values, holds = self._evaluate(fixed, points)
        inside = np.flatnonzero(np.isfinite(values) & holds)
        return points[:, inside[0]] if len(inside) else anchor

    def _active(self, fixed: Floats, shares: Floats, scales: Floats) -> tuple[str, ...]:
        margins = self._margins(fixed, shares[:, None])[:, 0]
        tight = self.smooth & (np.abs(margins) <= ACTIVE * scales)
        return tuple(
            check.name for check, is_tight in zip(self.checks, tight, strict=True) if is_tight
        )


def _finite(values: Floats, undefined: float, infinite: float) -> Floats:
    """The values with finite replacements where they are not finite, as SLSQP requires."""
    result: Floats = np.nan_to_num(values, nan=undefined, posinf=infinite, neginf=-infinite)
    return result


def _best(points: Floats, values: Floats, feasible: Flags) -> Floats | None:
    if not feasible.any():
        return None
    best: Floats = points[:, int(np.argmin(np.where(feasible, values, np.inf)))]
    return best


def _is_logical(check: ConstraintCheck) -> bool:
    return any(
        isinstance(node, Operation) and node.operator in ("eq", "ne", "not", "select")
        for node in postorder(check.condition)
    )
