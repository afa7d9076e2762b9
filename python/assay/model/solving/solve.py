"""Solve: the values of unknowns anywhere in the graph at which requirements are met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.errors import AssayError, ConvergenceError, CycleError, InputError, OverdeterminedError
from assay.model.inputs import Given, Inputs, check_value, read_inputs
from assay.model.language.variables import Variable
from assay.model.resolving.resolution import Resolution
from assay.model.resolving.resolve import resolve
from assay.model.selection import check_variants
from assay.model.solving.newton import newton
from assay.model.solving.solution import Solution, SolvedStage
from assay.model.solving.stages import RESOLVED_TOLERANCE, StageSolver
from assay.model.solving.system import Stage, Statement, System
from assay.model.solving.whole import find_whole_neighbors
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

__all__ = ["Solution", "solve"]

Starts = Mapping[str, Given] | Sequence[Mapping[str, Given]]

_BOUND_SLACK = 1e-9
_VERIFY_SLACK = 1e3
_MOST_SOLUTIONS = 8
_MOST_BRANCHES = 64
_FURTHER_TOLERANCE = 1e-6
"""Relative tolerance of the required values at a further solution."""


def solve(
    registry: Declarations,
    unknown: Sequence[str],
    given: Mapping[str, Given],
    equal: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    starts: Starts | None = None,
    switch: bool = True,
    tolerance: float = 1e-10,
) -> Solution:
    """Find the values of `unknown` at which every variable in `equal` takes its value.

    Unknowns may lie anywhere. One that has a relation of its own keeps it as an equation, unless
    inputs of that relation are missing. A given value of an unknown serves as a first guess, as
    do `starts`: one or several mappings from unknowns to values.
    """
    check_variants(registry, variants)
    names = _read_unknowns(registry, unknown)
    inputs = read_inputs(registry, given)
    required = _read_required(registry, equal)
    known = {name: value for name, value in inputs.values.items() if name not in names}
    system = System(registry, names, known, required, variants, switch=switch)
    guesses = _read_starts(registry, names, inputs, starts)
    search = _Search(system, StageSolver(system, guesses, tolerance))
    search.note_distributions(inputs)
    try:
        system.check()
    except OverdeterminedError as error:
        raise search.with_residual(error) from None
    return search.run()


@dataclass(frozen=True, slots=True)
class _VerifiedSolution:
    point: dict[str, float]
    stages: list[SolvedStage]
    resolutions: dict[str, Resolution]


class _Search:
    """Tries the decompositions of a system, and verifies each solution by resolving it."""

    def __init__(self, system: System, solver: StageSolver) -> None:
        self.system = system
        self.solver = solver
        self.registry = system.registry
        self.variants = system.cones.variants
        self.switch = system.cones.switch
        self.failures: list[AssayError] = []
        self.rejections: list[AssayError] = []
        self.notes: dict[str, None] = dict.fromkeys(system.notes)

    def note_distributions(self, inputs: Inputs) -> None:
        if inputs.distributions:
            self.notes[inputs.median_note] = None

    def run(self) -> Solution:
        """The first verified solution, with the others that were found."""
        solutions: list[_VerifiedSolution] = []
        full_stage = Stage(self.system.unknown, tuple(self.system.user_statements))
        full_function = self.solver.function(full_stage, ())
        for plan in self.system.plans():
            for branch, (point, stages) in enumerate(self._branches(plan)):
                candidate = self._verify(full_stage, full_function, point, stages)
                if candidate and (not solutions or self._is_further_solution(candidate, solutions)):
                    solutions.append(candidate)
                if len(solutions) == _MOST_SOLUTIONS or branch == _MOST_BRANCHES:
                    break
            if solutions:
                break
        if not solutions:
            raise self._failure()
        if len(solutions) > 1:
            self.notes[f"{len(solutions)} solutions were found; this is the first of them"] = None
        self.notes.update(self.solver.notes)
        for resolution in solutions[0].resolutions.values():
            self.notes.update(dict.fromkeys(conflict.text for conflict in resolution.conflicts))
        return Solution(
            unknowns=tuple(self.registry.variables[name] for name in self.system.unknown),
            values=solutions[0].point,
            required=dict(self.system.equal),
            resolutions=solutions[0].resolutions,
            stages=tuple(solutions[0].stages),
            others=tuple(other.point for other in solutions[1:]),
            whole=find_whole_neighbors(
                self.registry,
                solutions[0].point,
                self.system.given,
                self.system.equal,
                self.variants,
                switch=self.switch,
            ),
            notes=tuple(self.notes),
        )

    def _is_further_solution(
        self, candidate: _VerifiedSolution, solutions: list[_VerifiedSolution]
    ) -> bool:
        """Whether it differs from the solutions found and is no artifact of rounding.

        Where an unknown is so large that the step to the next float changes the outcome, rounding
        makes the residual change sign without a root.
        """
        if any(_same(candidate.point, other.point) for other in solutions):
            return False
        return all(
            abs(candidate.resolutions[name].require_value() - required)
            <= _FURTHER_TOLERANCE * abs(required)
            for name, required in self.system.equal.items()
            if required != 0.0
        )

    def with_residual(self, error: OverdeterminedError) -> OverdeterminedError:
        """The error with the residuals of the surplus requirements once the others are met."""
        surplus = [s.variable for s in self.system.matching.surplus_equations]
        required = {n: v for n, v in self.system.equal.items() if n not in surplus}
        system = System(
            self.registry, self.system.unknown, self.system.given, required, self.variants,
            switch=self.switch,
        )  # fmt: skip
        try:
            system.check()
            solver = StageSolver(system, self.solver.starts, self.solver.tolerance)
            solution = _Search(system, solver).run()
            shown = [self._compare(name, solution) for name in surplus]
        except AssayError:
            return error
        return OverdeterminedError(f"{error.message}; {'; '.join(shown)}", error.hint)

    def _compare(self, name: str, solution: Solution) -> str:
        variable, required = self.registry.variables[name], self.system.equal[name]
        known = Inputs({**self.system.given, **solution.values})
        resolution = resolve(self.registry, name, known, self.variants, switch=self.switch)
        value = resolution.require_value()
        if abs(value - required) <= RESOLVED_TOLERANCE * max(abs(value), abs(required)):
            return f"without it, {name} is {variable.format(value)} already"
        return f"without it, {name} is {variable.format(value)}, not {variable.format(required)}"

    def _branches(
        self, plan: Sequence[Stage]
    ) -> Iterator[tuple[dict[str, float], list[SolvedStage]]]:
        """All combinations of roots of the stages, depth first."""
        functions: list[PointFunction] = []
        upstream: list[str] = []
        for stage in plan:
            functions.append(self.solver.function(stage, upstream))
            upstream += stage.unknowns
        pending: list[tuple[dict[str, float], list[SolvedStage]]] = [({}, [])]
        while pending:
            point, done = pending.pop()
            if len(done) == len(plan):
                yield point, done
                continue
            stage = plan[len(done)]
            try:
                roots = self.solver.roots(stage, functions[len(done)], point)
            except ConvergenceError as error:
                self.failures.append(error)
                continue
            equations = tuple(statement.variable for statement in stage.statements)
            for root in reversed(roots):
                values = dict(zip(stage.unknowns, map(float, root.point), strict=True))
                solved = SolvedStage(
                    stage.unknowns, equations, root.method, root.iterations, root.misfit
                )
                pending.append(({**point, **values}, [*done, solved]))

    def _verify(
        self,
        full_stage: Stage,
        function: PointFunction,
        point: Mapping[str, float],
        stages: list[SolvedStage],
    ) -> _VerifiedSolution | None:
        """The solution if resolving from the point confirms it within all bounds; else None."""
        equations = self.solver.equations(full_stage, function, {})
        tolerance = self.solver.tolerance_of(function)
        vector = np.array([point[name] for name in self.system.unknown])
        if equations.at(vector).misfit > tolerance:
            # Errors of stages add up; a Newton iteration over all unknowns removes them.
            vector = newton(equations, vector, tolerance).point
        values = dict(zip(self.system.unknown, map(float, vector), strict=True))
        scaled = list(zip(self.solver.rows(full_stage), equations.at(vector).scale, strict=True))
        resolutions: dict[str, Resolution] = {}
        try:
            for name, value in values.items():
                check_value(self.registry.variables[name], value)
            for statement, scale in scaled:
                resolution = self._recompute(statement, values)
                if resolution is None:
                    continue
                self._check(statement, values, resolution, _VERIFY_SLACK * tolerance * float(scale))
                if statement.kind == "requirement":
                    resolutions[statement.variable] = resolution
        except AssayError as error:
            self.rejections.append(error)
            return None
        ordered = {name: resolutions[name] for name in self.system.equal}
        return _VerifiedSolution(values, stages, ordered)

    def _recompute(self, statement: Statement, values: Mapping[str, float]) -> Resolution | None:
        """The computed side of a statement at the solution."""
        name = statement.variable
        known = {**self.system.given, **values}
        if statement.kind == "own":
            del known[name]
        try:
            return resolve(self.registry, name, Inputs(known), self.variants, switch=self.switch)
        except CycleError:
            # A cycle through the unknown itself can be solved but not resolved.
            return None

    def _check(
        self,
        statement: Statement,
        values: Mapping[str, float],
        resolution: Resolution,
        slack: float,
    ) -> None:
        name, value = statement.variable, resolution.require_value()
        required = self.system.equal[name] if statement.kind == "requirement" else values[name]
        if abs(value - required) > slack:
            why = "not what is required" if statement.kind == "requirement" else "by its relation"
            raise self._rejected(values, resolution.variable, value, why)
        for step in resolution.trace:
            variable, computed = step.variable, step.value
            slack = _BOUND_SLACK * abs(computed)
            if step.relation and not variable.lower - slack <= computed <= variable.upper + slack:
                raise self._rejected(values, variable, computed, "which is out of its bounds")

    def _rejected(
        self, values: Mapping[str, float], variable: Variable, value: float, why: str
    ) -> ConvergenceError:
        at = ", ".join(f"{n} = {self.registry.variables[n].format(v)}" for n, v in values.items())
        return ConvergenceError(
            f"no solution within bounds: at {at}, {variable.name} is {variable.format(value)}, {why}",
            "require other values, or start nearer to another solution",
        )

    def _failure(self) -> AssayError:
        """The last rejected solution, else the last failure to converge."""
        return (self.rejections or self.failures)[-1]


def _same(point: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(
        abs(value - other[name]) <= 1e-6 * max(abs(value), abs(other[name]))
        for name, value in point.items()
    )


def _read_unknowns(registry: Declarations, unknown: Sequence[str]) -> tuple[str, ...]:
    names = (unknown,) if isinstance(unknown, str) else tuple(unknown)
    if not names:
        raise InputError("nothing to solve for", "name at least one unknown")
    for name in names:
        registry.variable(name)
        if name in registry.constants:
            raise InputError(f"{name} is a constant of nature and cannot be an unknown")
        if names.count(name) > 1:
            raise InputError(f"{name} is listed as an unknown twice")
    return names


def _read_required(registry: Declarations, equal: Mapping[str, Given]) -> dict[str, float]:
    required = read_inputs(registry, equal)
    for name in required.distributions:
        raise InputError(f"{name} is required to equal a distribution", "require a single value")
    return required.values


def _read_starts(
    registry: Declarations, names: Sequence[str], inputs: Inputs, starts: Starts | None
) -> list[dict[str, float]]:
    """Initial guesses for the unknowns: those in `starts`, then given values."""
    mappings = [starts] if isinstance(starts, Mapping) else list(starts or ())
    guesses = []
    for start in mappings:
        guess = read_inputs(registry, start).values
        if unknown_names := [name for name in guess if name not in names]:
            raise InputError(
                f"a start is given for {unknown_names[0]}, which is not an unknown",
                f"unknowns: {', '.join(names)}",
            )
        guesses.append(guess)
    given = {name: value for name, value in inputs.values.items() if name in names}
    return [guess for guess in [*guesses, given] if guess]
