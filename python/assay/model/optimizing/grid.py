"""Exact enumeration of all combinations of choices, in chunks, without storing the grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.array_types import Floats, Ints
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.model.tapes.points import PointFunction

    Indexes = Ints

Progress = Callable[[int, int], None]

RESOLVED_LIMIT = 20_000
"""Points at most where each is resolved separately, which takes about a millisecond."""

PART_POINTS = 1 << 20
"""Points of a part of a grid at most, about."""
PART_CHUNKS = 8
"""Chunks of a part at most: of a large cone, whose chunks have fewer points, a part has fewer too."""

_CHUNK_CELLS = 1 << 22
_LARGEST_CHUNK = 1 << 17


class Grid:
    """The product of some axes with a set of samples, numbered row by row.

    Samples are columns over further variables and vary fastest; `block` is their number.
    """

    def __init__(self, axes: Sequence[Floats], samples: Floats | None = None) -> None:
        """Take one array of values per axis."""
        self.axes = list(axes)
        self.samples = np.empty((0, 1)) if samples is None else samples
        self.block: int = self.samples.shape[1]
        self.combinations = prod(len(axis) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of points."""
        return self.combinations * self.block

    def columns(self, indexes: Indexes) -> Floats:
        """Coordinates of shape (axes and sampled variables, points) of numbered points."""
        combination, sample = np.divmod(indexes, self.block)
        result = np.empty((len(self.axes) + len(self.samples), len(indexes)))
        for row in range(len(self.axes) - 1, -1, -1):
            combination, digit = np.divmod(combination, len(self.axes[row]))
            result[row] = self.axes[row][digit]
        result[len(self.axes) :] = self.samples[:, sample]
        return result


@dataclass(slots=True)
class EnumerationResult:
    """Counts over all points of a grid, and the best of them.

    `relaxed` has for each constraint the best value among points that violate it alone.
    """

    points: int = 0
    feasible: int = 0
    undefined: int = 0
    excluded: Indexes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    relaxed: Floats = field(default_factory=lambda: np.zeros(0))
    best: list[tuple[float, int]] = field(default_factory=list)
    unconstrained: tuple[float, int] | None = None
    least_violating: tuple[int, float, int] | None = None

    def join(self, later: EnumerationResult, keep: int) -> None:
        """Add the combinations that follow: what enumerating both at once would have found."""
        self.points += later.points
        self.undefined += later.undefined
        self.excluded = self.excluded + later.excluded
        self.relaxed = np.minimum(self.relaxed, later.relaxed)
        self.best = sorted(self.best + later.best)[:keep]
        # Of equal values the earlier point counts.
        ends = [end for end in (self.unconstrained, later.unconstrained) if end is not None]
        self.unconstrained = min(ends, key=lambda end: end[0], default=None)
        if not self.feasible:
            least = [
                end for end in (self.least_violating, later.least_violating) if end is not None
            ]
            self.least_violating = min(least, default=None)
        self.feasible += later.feasible

    def to_data(self) -> dict[str, Any]:
        """The result as plain data, which `from_data` reads back to the bit."""
        return {
            "points": self.points,
            "feasible": self.feasible,
            "undefined": self.undefined,
            "excluded": self.excluded.tolist(),
            "relaxed": self.relaxed.tolist(),
            "best": self.best,
            "unconstrained": self.unconstrained,
            "least_violating": self.least_violating,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EnumerationResult:
        """Read back what `to_data` wrote."""
        least = data["least_violating"]
        return cls(
            data["points"],
            data["feasible"],
            data["undefined"],
            np.array(data["excluded"], dtype=np.int64),
            np.array(data["relaxed"], dtype=np.float64),
            [(value, index) for value, index in data["best"]],
            None if data["unconstrained"] is None else tuple(data["unconstrained"]),
            None if least is None else tuple(least),
        )


def enumerate_grid(
    function: PointFunction,
    grid: Grid,
    *,
    keep: int,
    progress: Progress | None = None,
    between: tuple[int, int] | None = None,
) -> EnumerationResult:
    """Evaluate every point: the first row is the objective, the others are constraints.

    Returns the best feasible point of each of the `keep` best combinations; `between` names the
    first combination and the one after the last where not all are meant.
    """
    check_affordable(function, grid)
    result = EnumerationResult(
        excluded=np.zeros(function.rows - 1, dtype=np.int64),
        relaxed=np.full(function.rows - 1, np.inf),
    )
    begin, end = between or (0, grid.combinations)
    chunk = _chunk(function, grid)
    for first in range(begin, end, chunk):
        last = min(first + chunk, end)
        indexes = np.arange(first * grid.block, last * grid.block, dtype=np.int64)
        with np.errstate(all="ignore"):
            rows = function(grid.columns(indexes))
        _accumulate(result, rows, indexes, grid.block, keep)
        if progress is not None:
            progress(last * grid.block, grid.size)
    return result


def _chunk(function: PointFunction, grid: Grid) -> int:
    """Combinations that are evaluated at once."""
    return max(1, min(_LARGEST_CHUNK, _CHUNK_CELLS // max(1, function.rows)) // grid.block)


def grid_parts(function: PointFunction, grid: Grid) -> list[tuple[int, int]]:
    """The combinations in parts of whole chunks: evaluated apart, they are the same to the bit."""
    chunk = _chunk(function, grid)
    step = chunk * max(1, min(PART_POINTS // (chunk * grid.block), PART_CHUNKS))
    return [
        (first, min(first + step, grid.combinations)) for first in range(0, grid.combinations, step)
    ]


def check_affordable(function: PointFunction, grid: Grid) -> None:
    """Refuse a grid that would take hours because no tape computes its points."""
    if not function.exact and grid.size > RESOLVED_LIMIT:
        raise InputError(
            f"{grid.size} points are too many to resolve one by one: at most {RESOLVED_LIMIT}",
            function.note,
        )


def _accumulate(
    result: EnumerationResult, rows: Floats, indexes: Indexes, block: int, keep: int
) -> None:
    values, holds = rows[0], rows[1:] > 0
    defined = np.isfinite(values)
    feasible = defined & holds.all(axis=0)
    result.points += len(indexes)
    result.undefined += int(np.count_nonzero(~defined))
    result.feasible += int(np.count_nonzero(feasible))
    result.excluded += np.count_nonzero(~holds & defined, axis=1)
    alone = np.flatnonzero(defined & (np.count_nonzero(~holds, axis=0) == 1))
    if len(alone):
        broken = np.argmin(holds[:, alone], axis=0)
        np.minimum.at(result.relaxed, broken, values[alone])
    if defined.any():
        at = int(np.argmin(np.where(defined, values, np.inf)))
        if result.unconstrained is None or values[at] < result.unconstrained[0]:
            result.unconstrained = (float(values[at]), int(indexes[at]))
    if feasible.any():
        # The best of each combination, then the best combinations; ties keep the earlier one.
        table = np.where(feasible, values, np.inf).reshape(-1, block)
        inner = np.argmin(table, axis=1)
        best = table[np.arange(len(table)), inner]
        count = min(keep, len(best))
        smallest = (
            np.argpartition(best, count - 1)[:count] if count < len(best) else np.arange(count)
        )
        cutoff = best[smallest].max()
        chosen = [*np.flatnonzero(best < cutoff), *np.flatnonzero(best == cutoff)[:keep]]
        result.best += [
            (float(best[row]), int(indexes[row * block + inner[row]]))
            for row in chosen
            if np.isfinite(best[row])
        ]
        result.best = sorted(result.best)[:keep]
    elif not result.feasible and defined.any():
        violated = np.where(defined, np.count_nonzero(~holds, axis=0), len(holds) + 1)
        fewest = int(violated.min())
        at = int(np.argmin(np.where(violated == fewest, values, np.inf)))
        candidate = (fewest, float(values[at]), int(indexes[at]))
        if result.least_violating is None or candidate < result.least_violating:
            result.least_violating = candidate
