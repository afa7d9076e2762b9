"""A few simultaneous equations over unknowns whose sizes differ by many decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.model.language.variables import Variable
    from assay.model.tapes.points import PointFunction

    Array = NDArray[np.float64]

_SENSITIVITY_SHARE = 0.01
_PROBE = 1e-3
_MOST_CLAIMED = 1e6


@dataclass(frozen=True, slots=True)
class Place:
    """The equations at a point: both sides, their derivatives, and how far they are apart.

    `scale` is what a difference of the sides is judged by: the wanted value, or a share of what
    the unknowns' own sizes amount to where that value is the small difference of large ones.
    `misfit` is the largest difference so judged, infinite where a side has no value.
    """

    point: Array
    computed: Array
    wanted: Array
    computed_slopes: Array
    wanted_slopes: Array
    scale: Array
    misfit: float

    @property
    def slopes(self) -> Array:
        """Derivatives of computed less wanted sides by the unknowns."""
        result: Array = self.computed_slopes - self.wanted_slopes
        return result

    @property
    def is_singular(self) -> bool:
        """Whether some direction of the unknowns, for their sizes, leaves all sides alone."""
        with np.errstate(all="ignore"):
            scaled = self.slopes * self.point
            rows = np.sum(np.abs(scaled), axis=1)
        if not np.isfinite(rows).all() or not rows.all():
            return True
        values = np.linalg.svd(scaled / rows[:, None], compute_uv=False)
        return bool(values[-1] <= 1e-9 * values[0])


class Equations:
    """Computed and wanted sides over some unknowns, everything else held fixed."""

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
        self._wanted_slopes = np.zeros((len(wanted), len(self.unknowns)))
        for row, position in enumerate(positions):
            if 0 <= position < len(self.unknowns):
                self._wanted_slopes[row, position] = 1.0

    def sides(self, points: Array) -> tuple[Array, Array]:
        """Computed and wanted sides, each of shape (equations, points)."""
        count = points.shape[1]
        columns = np.vstack([points, np.repeat(self._upstream, count, axis=1)])
        own = columns[np.maximum(self._positions, 0)]
        wanted = np.where(self._positions[:, None] >= 0, own, self._wanted)
        with np.errstate(all="ignore"):
            return self.function(columns), wanted

    def at(self, point: Array) -> Place:
        """Everything about one point."""
        inputs = np.concatenate([point, self._upstream[:, 0]])
        computed, wanted = (side[:, 0] for side in self.sides(point[:, None]))
        with np.errstate(all="ignore"):
            slopes = self.function.jacobian(inputs, len(point))
            sensitivity = np.abs(slopes - self._wanted_slopes) @ np.abs(point)
            sensitivity[~np.isfinite(sensitivity)] = 0.0
            difference = np.abs(computed - wanted)
            doubtful = (_SENSITIVITY_SHARE * sensitivity > np.abs(wanted)) & (difference > 0)
            if doubtful.any():
                credible = self._credible(point, computed - wanted, wanted)
                sensitivity[doubtful] = np.minimum(sensitivity, credible)[doubtful]
            scale = np.maximum(np.abs(wanted), _SENSITIVITY_SHARE * sensitivity)
            scale[scale == 0.0] = np.finfo(float).tiny
            misfit = float(np.max(np.where(difference == 0.0, 0.0, difference / scale)))
        misfit = misfit if math.isfinite(misfit) else math.inf
        return Place(point, computed, wanted, slopes, self._wanted_slopes, scale, misfit)

    def _credible(self, point: Array, difference: Array, wanted: Array) -> Array:
        """The most that slopes may claim the unknowns' own sizes amount to.

        Far out on a sine they claim anything, since they hold over less than the step to the
        next float. The sides must really come apart that far when the unknowns move, or come
        out within a millionth of the wanted value, which is all that floats allow beside a pole.
        Nothing, where sides are closer all around the point, as they are at a pole.
        """
        moved = np.repeat(point[:, None], 2 * len(point), axis=1)
        for row in range(len(point)):
            moved[row, 2 * row : 2 * row + 2] *= 1.0 + np.array([-_PROBE, _PROBE])
        computed, others = self.sides(moved)
        around = computed - others
        change = np.abs(around - difference[:, None]).reshape(len(difference), -1, 2)
        largest = np.max(np.where(np.isfinite(change), change, 0.0), axis=2)
        credible: Array = np.sum(largest, axis=1) / _PROBE
        credible = np.maximum(credible, _MOST_CLAIMED * np.abs(wanted))
        closer = np.abs(around) < np.abs(difference)[:, None]
        credible[np.all(closer | np.isnan(around), axis=1)] = 0.0
        return credible
