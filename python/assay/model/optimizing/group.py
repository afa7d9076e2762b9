"""The search over choices that interact: enumerate what is discrete, refine what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.model.language.expression import Expression
from assay.model.optimizing.choices import Choices
from assay.model.optimizing.grid import Grid, Progress, Tally, enumerate_grid
from assay.model.optimizing.judge import Check
from assay.model.optimizing.optimum import Binding
from assay.model.optimizing.refine import ACTIVE, Refiner, sample_shares
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.model.declarations import Declarations

    Array = NDArray[np.float64]

_SAMPLES = 4096
_SAMPLES_RESOLVED = 48
_FEWEST_SAMPLES = 8
_REFINE_ALL = 64
_REFINE_BEST = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Feasible choices, the objective there, and the checks that are tight."""

    value: float
    choices: dict[str, float]
    active: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupResult:
    """What the search of a group found; `excluded` counts points that each check rules out."""

    points: int
    feasible: int
    undefined: int
    excluded: dict[str, int]
    candidates: list[Candidate]
    binding: list[Binding] = field(default_factory=list)
    least_violating: Candidate | None = None


class Group:
    """Choices that share the objective or a check, with the functions that judge them."""

    def __init__(
        self,
        registry: Declarations,
        choices: Choices,
        objective: Expression,
        checks: Sequence[Check],
        given: Mapping[str, float],
        variants: Mapping[str, str],
        *,
        switch: bool,
        limit: int,
    ) -> None:
        """Compile the objective, to be made smallest, and the checks."""
        self.choices = choices
        self.checks = list(checks)

        def function(conditions: Mapping[str, Expression]) -> PointFunction:
            rows = {"objective": objective, **conditions}
            return PointFunction(
                registry, choices.names, given, variants, switch=switch, conditions=rows
            )

        self.truths = function({check.name: check.condition for check in checks})
        axes = [choice.values for choice in choices.discrete]
        self.grid = Grid(axes)
        self.refiner: Refiner | None = None
        if choices.continuous:
            margins = function({f"margin of {check.name}": check.margin for check in checks})
            self.refiner = Refiner(self.truths, margins, self.checks, choices.continuous)
            room = limit // max(1, self.grid.combinations)
            most = min(_SAMPLES if self.truths.exact else _SAMPLES_RESOLVED, room)
            self.shares = sample_shares(len(choices.continuous), max(_FEWEST_SAMPLES, most))
            self.grid = Grid(axes, self.refiner.values_at(self.shares))

    def search(self, keep: int, progress: Progress | None) -> GroupResult:
        """Find the `keep` best feasible combinations."""
        wanted = max(keep, _REFINE_BEST) if self.refiner else keep
        tally = enumerate_grid(self.truths, self.grid, keep=wanted, progress=progress)
        result = GroupResult(
            tally.points,
            tally.feasible,
            tally.undefined,
            {c.name: int(n) for c, n in zip(self.checks, tally.excluded, strict=True) if n},
            [Candidate(value, self._named(self._column(index))) for value, index in tally.best],
        )
        if self.refiner is not None:
            result.candidates = self._refine(self.refiner, tally)[:keep]
            result.feasible = max(result.feasible, len(result.candidates))
        if result.candidates:
            result.binding = self._binding(result.candidates[0], tally)
        elif tally.least_violating is not None:
            column = self._column(tally.least_violating[2])
            holds = self.truths(column[:, None])[1:, 0] > 0
            broken = tuple(c.name for c, ok in zip(self.checks, holds, strict=True) if not ok)
            result.least_violating = Candidate(
                tally.least_violating[1], self._named(column), broken
            )
        return result

    def _column(self, index: int) -> Array:
        column: Array = self.grid.columns(np.array([index]))[:, 0]
        return column

    def _named(self, column: Array) -> dict[str, float]:
        return dict(zip(self.choices.names, map(float, column), strict=True))

    def _refine(self, refiner: Refiner, tally: Tally) -> list[Candidate]:
        """Refine the ranges for every combination if they are few, else for the best ones."""
        block, discrete = self.grid.block, len(self.choices.discrete)
        combinations = [index // block for _, index in tally.best]
        if self.grid.combinations <= _REFINE_ALL:
            combinations = list(range(self.grid.combinations))
        found = []
        for combination in combinations:
            fixed = self._column(combination * block)[:discrete]
            refined = refiner.refine(fixed, self.shares)
            if refined is not None:
                values = refiner.values_at(refined.shares[:, None])[:, 0]
                named = self._named(np.concatenate([fixed, values]))
                found.append(Candidate(refined.value, named, refined.active))
        return sorted(found, key=lambda candidate: candidate.value)

    def _binding(self, best: Candidate, tally: Tally) -> list[Binding]:
        """Tight checks, ends of ranges, and what rules out better values of a single choice.

        Where all choices are discrete, also what rules out the best point of all.
        """
        names = dict.fromkeys(best.active)
        columns = [np.array(list(best.choices.values()))]
        if tally.unconstrained is not None and not self.choices.continuous:
            columns.append(self._column(tally.unconstrained[1]))
        for row, choice in enumerate(self.choices.discrete):
            for value in choice.values:
                neighbor = columns[0].copy()
                neighbor[row] = value
                columns.append(neighbor)
        with np.errstate(all="ignore"):
            rows = self.truths(np.array(columns).T)
        for column in np.flatnonzero(rows[0] < best.value):
            broken = np.flatnonzero(~(rows[1:, column] > 0))
            names.update(dict.fromkeys(self.checks[row].name for row in broken))
        found = [Binding(c.name, c.text, c.meaning) for c in self.checks if c.name in names]
        return found + self._range_ends(best)

    def _range_ends(self, best: Candidate) -> list[Binding]:
        ends = []
        for choice in self.choices.continuous:
            variable = choice.variable
            share = choice.share_of(best.choices[variable.name])
            if min(share, 1.0 - share) <= ACTIVE:
                sign, end = (">=", choice.lower) if share < 0.5 else ("<=", choice.upper)
                text = f"{variable.name} {sign} {variable.format(end)}"
                ends.append(Binding(f"range of {variable.name}", text, "end of the offered range"))
        return ends
