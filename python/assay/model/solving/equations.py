"""Simultaneous equations over a few unknowns whose magnitudes differ by many decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.array_types import Floats

if TYPE_CHECKING:
    from assay.model.language.variables import Variable
    from assay.model.tapes.points import PointFunction


_SENSITIVITY_SHARE = 0.01
_PERTURBATION = 1e-3
_MOST_SENSITIVITY = 1e6


@dataclass(frozen=True, slots=True)
class EquationState:
    """The equations at a point: both sides, their Jacobians, and the scaled residual.

    `scale` divides the residual of each equation: the required value, or a share of the sum of
    |derivative * unknown| where that value is a small difference of large terms. `misfit` is the
    largest scaled residual, infinite where a side has no value.
    """

    point: Floats
    computed: Floats
    required: Floats
    computed_jacobian: Floats
    required_jacobian: Floats
    scale: Floats
    misfit: float

    @property
    def jacobian(self) -> Floats:
        """Jacobian of the residuals: computed less required sides by the unknowns."""
        result: Floats = self.computed_jacobian - self.required_jacobian
        return result

    @property
    def is_singular(self) -> bool:
        """Whether the Jacobian, scaled by the unknowns, is singular to working accuracy."""
        with np.errstate(all="ignore"):
            scaled = self.jacobian * self.point
            rows = np.sum(np.abs(scaled), axis=1)
        if not np.isfinite(rows).all() or not rows.all():
            return True
        values = np.linalg.svd(scaled / rows[:, None], compute_uv=False)
        return bool(values[-1] <= 1e-9 * values[0])


class Equations:
    """Computed and required sides over some unknowns, with all other inputs fixed."""

    def __init__(
        self,
        function: PointFunction,
        unknowns: Sequence[Variable],
        required: Sequence[float],
        positions: Sequence[int],
        upstream: Sequence[float],
    ) -> None:
        """The required side is a number where the position is -1, else the input at that position."""
        self.function = function
        self.unknowns = list(unknowns)
        self.lower = np.array([variable.lower for variable in unknowns])
        self.upper = np.array([variable.upper for variable in unknowns])
        self._required = np.array(required)[:, None]
        self._positions = np.array(positions)
        self._upstream = np.array(upstream, dtype=np.float64)[:, None]
        self._required_jacobian = np.zeros((len(required), len(self.unknowns)))
        for row, position in enumerate(positions):
            if 0 <= position < len(self.unknowns):
                self._required_jacobian[row, position] = 1.0

    def sides(self, points: Floats) -> tuple[Floats, Floats]:
        """Computed and required sides, each of shape (equations, points)."""
        count = points.shape[1]
        columns = np.vstack([points, np.repeat(self._upstream, count, axis=1)])
        own = columns[np.maximum(self._positions, 0)]
        required = np.where(self._positions[:, None] >= 0, own, self._required)
        with np.errstate(all="ignore"):
            return self.function(columns), required

    def at(self, point: Floats) -> EquationState:
        """Both sides, Jacobians and residual at one point."""
        inputs = np.concatenate([point, self._upstream[:, 0]])
        computed, required = (side[:, 0] for side in self.sides(point[:, None]))
        with np.errstate(all="ignore"):
            jacobian = self.function.jacobian(inputs, len(point))
            sensitivity = np.abs(jacobian - self._required_jacobian) @ np.abs(point)
            sensitivity[~np.isfinite(sensitivity)] = 0.0
            difference = np.abs(computed - required)
            ill_conditioned = (_SENSITIVITY_SHARE * sensitivity > np.abs(required)) & (
                difference > 0
            )
            if ill_conditioned.any():
                bound = self._sensitivity_bound(point, computed - required, required)
                sensitivity[ill_conditioned] = np.minimum(sensitivity, bound)[ill_conditioned]
            scale = np.maximum(np.abs(required), _SENSITIVITY_SHARE * sensitivity)
            scale[scale == 0.0] = np.finfo(float).tiny
            misfit = float(np.max(np.where(difference == 0.0, 0.0, difference / scale)))
        misfit = misfit if math.isfinite(misfit) else math.inf
        return EquationState(
            point, computed, required, jacobian, self._required_jacobian, scale, misfit
        )

    def _sensitivity_bound(self, point: Floats, difference: Floats, required: Floats) -> Floats:
        """Upper bound on the sensitivity that the derivatives may imply.

        Where a function oscillates faster than floats resolve, its derivative means nothing over
        the step to the next float. The residual must really change that much when the unknowns
        move, or stay within a millionth of the required value, the best that floats allow beside a
        pole. Zero where residuals are smaller all around the point, as they are at a pole.
        """
        moved = np.repeat(point[:, None], 2 * len(point), axis=1)
        for row in range(len(point)):
            moved[row, 2 * row : 2 * row + 2] *= 1.0 + np.array([-_PERTURBATION, _PERTURBATION])
        computed, moved_required = self.sides(moved)
        residuals = computed - moved_required
        change = np.abs(residuals - difference[:, None]).reshape(len(difference), -1, 2)
        largest = np.max(np.where(np.isfinite(change), change, 0.0), axis=2)
        bound: Floats = np.sum(largest, axis=1) / _PERTURBATION
        bound = np.maximum(bound, _MOST_SENSITIVITY * np.abs(required))
        closer = np.abs(residuals) < np.abs(difference)[:, None]
        bound[np.all(closer | np.isnan(residuals), axis=1)] = 0.0
        return bound
