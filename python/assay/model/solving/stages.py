"""Roots of one stage of a system: a few unknowns and as many statements about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay.array_types import Floats
from assay.errors import ConvergenceError, UnderdeterminedError
from assay.model.language.expression import Symbol
from assay.model.language.variables import Variable
from assay.model.solving.equations import Equations
from assay.model.solving.newton import Attempt, is_distinct, newton, quasi_random_starts
from assay.model.solving.scan import LineScan, expand_line, scan_line
from assay.model.solving.system import Stage, Statement, System
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    pass


RESOLVED_TOLERANCE = 1e-8
"""Tolerance where sides are integrated or iterated point by point."""

_STARTS_PER_ROUND = 4
_FAMILY_OF_ROOTS = 3


class StageSolver:
    """Finds the roots of the stages of a system; `notes` collects remarks on the solution."""

    def __init__(
        self, system: System, starts: Sequence[Mapping[str, float]], tolerance: float
    ) -> None:
        """Try `starts` first, each a guess for some of the unknowns."""
        self.system = system
        self.registry = system.registry
        self.starts = starts
        self.tolerance = tolerance
        self.notes: dict[str, None] = {}

    def function(self, stage: Stage, upstream: Sequence[str]) -> PointFunction:
        """The computed sides of a stage, over its unknowns and those found before it."""
        direct, defined = self._split(stage)
        pinned = {n: v for n, v in self.system.equal.items() if n not in self.system.unknown}
        function = PointFunction(
            self.registry,
            [*stage.unknowns, *upstream],
            # A branch that is not taken may be without a value.
            {**self.system.given, **pinned, **dict.fromkeys(self.system.idle, np.nan)},
            self.system.cones.variants,
            switch=self.system.cones.switch,
            definitions=[s.variable for s in defined],
            conditions={f"value of {s.variable}": Symbol(s.variable) for s in direct},
        )
        if function.note:
            self.notes[function.note] = None
        return function

    def equations(
        self, stage: Stage, function: PointFunction, point: Mapping[str, float]
    ) -> Equations:
        """The equations of a stage where the unknowns of earlier stages are as in `point`."""
        required, positions = [], []
        for statement in self.rows(stage):
            is_number = statement.kind == "requirement"
            required.append(self.system.equal[statement.variable] if is_number else 0.0)
            positions.append(-1 if is_number else function.inputs.index(statement.variable))
        upstream = [point[name] for name in function.inputs[len(stage.unknowns) :]]
        unknowns = [self.registry.variables[name] for name in stage.unknowns]
        return Equations(function, unknowns, required, positions, upstream)

    def rows(self, stage: Stage) -> list[Statement]:
        """The statements of a stage in the order of its equations."""
        direct, defined = self._split(stage)
        return [*defined, *direct]

    def tolerance_of(self, function: PointFunction) -> float:
        """The tolerance for a stage; looser where no tape computes it."""
        return self.tolerance if function.exact else max(self.tolerance, RESOLVED_TOLERANCE)

    def roots(
        self, stage: Stage, function: PointFunction, point: Mapping[str, float]
    ) -> list[Attempt]:
        """Distinct roots of a stage; raises ConvergenceError with the smallest misfit."""
        equations = self.equations(stage, function, point)
        guesses = [start for start in self.starts if any(n in start for n in stage.unknowns)]
        center = np.array([self._typical(v, point, guesses) for v in equations.unknowns])
        if len(stage.unknowns) == 1:
            return self._roots_on_line(stage, equations, float(center[0]), bool(guesses))
        starts = [
            np.array([guess.get(n, c) for n, c in zip(stage.unknowns, center, strict=True)])
            for guess in guesses
        ] or [center]
        if function.exact:
            starts += quasi_random_starts(equations, center, _STARTS_PER_ROUND)
        else:
            starts += [center * factor for factor in (0.1, 10.0, 0.01, 100.0)]
        return self._roots_from(stage, equations, starts)

    def _split(self, stage: Stage) -> tuple[list[Statement], list[Statement]]:
        """Statements about an unknown's value itself, and those about a definition."""
        unknown = set(self.system.unknown)
        direct = [s for s in stage.statements if s.kind == "requirement" and s.variable in unknown]
        return direct, [s for s in stage.statements if s not in direct]

    def _roots_on_line(
        self, stage: Stage, equations: Equations, center: float, guessed: bool
    ) -> list[Attempt]:
        tolerance = self.tolerance_of(equations.function)
        if equations.function.exact:
            scan = scan_line(equations, tolerance, center if guessed else None)
        else:
            scan = expand_line(equations, tolerance, center)
        if not scan.roots:
            raise self._no_value(stage, equations.unknowns[0], scan)
        if scan.plateau is not None:
            low, high = (equations.unknowns[0].format(end) for end in scan.plateau)
            self.notes[f"every {stage.unknowns[0]} between {low} and {high} is a solution"] = None
        return scan.roots

    def _roots_from(
        self, stage: Stage, equations: Equations, starts: Sequence[Floats]
    ) -> list[Attempt]:
        tolerance = self.tolerance_of(equations.function)
        attempts: list[Attempt] = []
        roots: list[Attempt] = []
        for start in starts:
            attempt = newton(equations, start, tolerance)
            attempts.append(attempt)
            if attempt.misfit <= tolerance and is_distinct(attempt.point, roots):
                roots.append(attempt)
                if not equations.function.exact:
                    break
        if not roots:
            raise self._no_point(stage, equations, attempts)
        if equations.at(roots[0].point).is_singular:
            self._explain_singular(stage, equations, roots)
        return roots

    def _explain_singular(
        self, stage: Stage, equations: Equations, roots: Sequence[Attempt]
    ) -> None:
        """A single singular root may be a double root; many mean dependent equations."""
        names = ", ".join(s.variable for s in stage.statements)
        if len(roots) < _FAMILY_OF_ROOTS:
            self.notes[f"the equations of {names} are nearly dependent at the solution"] = None
            return
        examples = [
            ", ".join(
                f"{variable.name} = {variable.format(float(value))}"
                for variable, value in zip(equations.unknowns, root.point, strict=True)
            )
            for root in roots[:2]
        ]
        raise UnderdeterminedError(
            f"the equations of {names} depend on each other and do not fix "
            f"{', '.join(stage.unknowns)}",
            f"both {examples[0]} and {examples[1]} solve them: give one of the unknowns a value",
        )

    def _typical(
        self, variable: Variable, point: Mapping[str, float], guesses: Sequence[Mapping[str, float]]
    ) -> float:
        """A guess if there is one, else the geometric mean of known values of its dimension, else 1."""
        for guess in guesses:
            if variable.name in guess:
                return guess[variable.name]
        block = self.registry.block_of.get(variable.name)
        if block is not None and variable.name in block.starts:
            return block.starts[variable.name]
        known = {**self.system.given, **self.system.equal, **point}
        alike = [
            abs(value)
            for name, value in known.items()
            if value != 0.0 and self.registry.units[name].same_dimension(variable.unit)
        ]
        size = float(np.exp(np.mean(np.log(alike)))) if alike else 1.0
        return min(max(size, variable.lower), variable.upper)

    def _no_value(self, stage: Stage, unknown: Variable, scan: LineScan) -> ConvergenceError:
        statement = stage.statements[0]
        variable = self.registry.variables[statement.variable]
        if statement.kind == "requirement":
            required = f"makes {variable.name} {variable.format(self.system.equal[variable.name])}"
        else:
            required = f"agrees with the relation of {variable.name}"
        hint = "start nearer to the answer, or require another value"
        if scan.jumps:
            at = ", ".join(unknown.format(jump) for jump in scan.jumps[:3])
            hint = f"it jumps over the value at {unknown.name} = {at}"
        elif scan.computed_range is not None and statement.kind == "requirement":
            low, high = (variable.format(end) for end in scan.computed_range)
            hint = f"over the range tried, {variable.name} lies between {low} and {high}"
        elif scan.computed_range is None:
            hint = f"{variable.name} has no finite value at any {unknown.name} tried"
        return ConvergenceError(
            f"no {unknown.name}{_bounds(unknown)} {required}{_closest(scan.closest)}", hint
        )

    def _no_point(
        self, stage: Stage, equations: Equations, attempts: Sequence[Attempt]
    ) -> ConvergenceError:
        closest = min(attempts, key=lambda attempt: attempt.misfit)
        at = ", ".join(
            f"{variable.name} = {variable.format(float(value))}"
            for variable, value in zip(equations.unknowns, closest.point, strict=True)
        )
        singular = equations.at(closest.point).is_singular
        return ConvergenceError(
            f"no solution found for {', '.join(stage.unknowns)} together, from the equations of "
            f"{', '.join(s.variable for s in stage.statements)}{_closest(closest)}",
            f"closest of {len(attempts)} starts: {at}"
            + ("; the equations depend on each other there" if singular else ""),
        )


def _closest(attempt: Attempt | None) -> str:
    if attempt is None or not np.isfinite(attempt.misfit):
        return ""
    return f"; the closest misses by {100 * attempt.misfit:.3g} %"


def _bounds(variable: Variable) -> str:
    low, high = np.isfinite(variable.lower), np.isfinite(variable.upper)
    if low and high:
        return f" between {variable.format(variable.lower)} and {variable.format(variable.upper)}"
    if low:
        positive = 0 < variable.lower < 1e-300
        return " > 0" if positive else f" >= {variable.format(variable.lower)}"
    return f" <= {variable.format(variable.upper)}" if high else ""
