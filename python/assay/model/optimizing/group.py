"""Search over interacting choices: enumerate the discrete ones, refine the continuous ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.array_types import Floats
from assay.model.language.expression import Expression
from assay.model.optimizing.choices import Choices
from assay.model.optimizing.constraint_checks import BOUNDS_OF, ConstraintCheck
from assay.model.optimizing.grid import EnumerationResult, Grid, Progress, enumerate_grid
from assay.model.optimizing.optimum import BindingConstraint
from assay.model.optimizing.refine import ACTIVE, Refiner, sample_shares
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


_SAMPLES = 4096
_SAMPLES_RESOLVED = 48
_FEWEST_SAMPLES = 8
_REFINE_ALL = 64
_REFINE_BEST = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Feasible choices, the objective there, and the active constraints."""

    value: float
    choices: dict[str, float]
    active: tuple[str, ...] = ()


@dataclass(slots=True)
class GroupResult:
    """The result of searching a group; `excluded` counts the points that each check rules out."""

    points: int
    feasible: int
    undefined: int
    excluded: dict[str, int]
    candidates: list[Candidate]
    binding: list[BindingConstraint] = field(default_factory=list)
    least_violating: Candidate | None = None


class Group:
    """Choices that share the objective or a check, with their compiled functions."""

    def __init__(
        self,
        registry: Declarations,
        choices: Choices,
        objective: Expression,
        checks: Sequence[ConstraintCheck],
        given: Mapping[str, float],
        variants: Mapping[str, str],
        *,
        switch: bool,
        limit: int,
    ) -> None:
        """Compile the objective, to be minimized, and the checks."""
        self.choices = choices
        self.checks = list(checks)

        def function(conditions: Mapping[str, Expression]) -> PointFunction:
            rows = {"objective": objective, **conditions}
            return PointFunction(
                registry, choices.names, given, variants, switch=switch, conditions=rows
            )

        self.conditions = function({check.name: check.condition for check in checks})
        axes = [choice.values for choice in choices.discrete]
        self.grid = Grid(axes)
        self.refiner: Refiner | None = None
        if choices.continuous:
            margins = function({f"margin of {check.name}": check.margin for check in checks})
            self.refiner = Refiner(self.conditions, margins, self.checks, choices.continuous)
            room = limit // max(1, self.grid.combinations)
            most = min(_SAMPLES if self.conditions.exact else _SAMPLES_RESOLVED, room)
            self.shares = sample_shares(len(choices.continuous), max(_FEWEST_SAMPLES, most))
            self.grid = Grid(axes, self.refiner.values_at(self.shares))

    def enumerate(
        self, keep: int, progress: Progress | None = None, between: tuple[int, int] | None = None
    ) -> EnumerationResult:
        """Evaluate all combinations, or those between two; as many are kept as are refined."""
        return enumerate_grid(
            self.conditions, self.grid, keep=self.kept(keep), progress=progress, between=between
        )

    def kept(self, keep: int) -> int:
        """Combinations that an enumeration keeps to find the `keep` best."""
        return max(keep, _REFINE_BEST) if self.refiner else keep

    def search(self, keep: int, enumerated: EnumerationResult) -> GroupResult:
        """Find the `keep` best feasible combinations."""
        result = GroupResult(
            enumerated.points,
            enumerated.feasible,
            enumerated.undefined,
            {c.name: int(n) for c, n in zip(self.checks, enumerated.excluded, strict=True) if n},
            [
                Candidate(value, self._named(self._column(index)))
                for value, index in enumerated.best
            ],
        )
        if self.refiner is not None:
            result.candidates = self._refine(self.refiner, enumerated)[:keep]
            result.feasible = max(result.feasible, len(result.candidates))
        if result.candidates:
            result.binding = self._binding(result.candidates[0], enumerated)
        elif enumerated.least_violating is not None:
            column = self._column(enumerated.least_violating[2])
            holds = self.conditions(column[:, None])[1:, 0] > 0
            broken = tuple(c.name for c, ok in zip(self.checks, holds, strict=True) if not ok)
            result.least_violating = Candidate(
                enumerated.least_violating[1], self._named(column), broken
            )
        return result

    def _column(self, index: int) -> Floats:
        column: Floats = self.grid.columns(np.array([index]))[:, 0]
        return column

    def _named(self, column: Floats) -> dict[str, float]:
        return dict(zip(self.choices.names, map(float, column), strict=True))

    def _refine(self, refiner: Refiner, enumerated: EnumerationResult) -> list[Candidate]:
        """Refine the ranges for every combination if they are few, else for the best ones."""
        block, discrete = self.grid.block, len(self.choices.discrete)
        combinations = [index // block for _, index in enumerated.best]
        if self.grid.combinations <= _REFINE_ALL:
            combinations = list(range(self.grid.combinations))
        candidates = []
        for combination in combinations:
            fixed = self._column(combination * block)[:discrete]
            refined = refiner.refine(fixed, self.shares)
            if refined is not None:
                values = refiner.values_at(refined.shares[:, None])[:, 0]
                named = self._named(np.concatenate([fixed, values]))
                candidates.append(Candidate(refined.value, named, refined.active))
        return sorted(candidates, key=lambda candidate: candidate.value)

    def _binding(self, best: Candidate, enumerated: EnumerationResult) -> list[BindingConstraint]:
        """Binding constraints: active checks, ends of ranges, and what rules out better values.

        A better value is one of a single choice, the others held fixed; where all choices are
        discrete, also the unconstrained optimum.
        """
        names = dict.fromkeys(best.active)
        columns = [np.array(list(best.choices.values()))]
        if enumerated.unconstrained is not None and not self.choices.continuous:
            columns.append(self._column(enumerated.unconstrained[1]))
        for row, choice in enumerate(self.choices.discrete):
            for value in choice.values:
                neighbor = columns[0].copy()
                neighbor[row] = value
                columns.append(neighbor)
        with np.errstate(all="ignore"):
            rows = self.conditions(np.array(columns).T)
        for column in np.flatnonzero(rows[0] < best.value):
            broken = np.flatnonzero(~(rows[1:, column] > 0))
            names.update(dict.fromkeys(self.checks[row].name for row in broken))
        prices = {} if self.refiner is None else self.refiner.prices(columns[0], best.active)
        binding = [
            BindingConstraint(
                check.name, check.text, check.meaning,
                self._gain(best, float(enumerated.relaxed[row])), prices.get(check.name),
            )
            for row, check in enumerate(self.checks)
            if check.name in names
        ]  # fmt: skip
        # A computed value at its bound, such as a part that is zero everywhere, keeps nothing from being better.
        kept = [b for b in binding if b.price or b.gain or not b.name.startswith(BOUNDS_OF)]
        return self._range_ends(best) + kept

    def _gain(self, best: Candidate, relaxed: float) -> float | None:
        """Improvement without one constraint; None where ranges are only sampled."""
        if self.choices.continuous:
            return None
        return max(0.0, best.value - relaxed) if np.isfinite(relaxed) else 0.0

    def _range_ends(self, best: Candidate) -> list[BindingConstraint]:
        ends = []
        for choice in self.choices.continuous:
            variable = choice.variable
            share = choice.share_of(best.choices[variable.name])
            if min(share, 1.0 - share) <= ACTIVE:
                sign, end = (">=", choice.lower) if share < 0.5 else ("<=", choice.upper)
                text = f"{variable.name} {sign} {variable.format(end)}"
                ends.append(
                    BindingConstraint(f"range of {variable.name}", text, "end of the offered range")
                )
        return ends
