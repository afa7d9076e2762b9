"""The constraints that a feasible point fulfills, and the choices each of them depends on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.errors import AssayError, DeclarationError
from assay.model.inputs import Inputs
from assay.model.language.expression import Expression, Number, Symbol
from assay.model.language.functions import where
from assay.model.language.relations import margin
from assay.model.language.variables import Variable
from assay.model.resolving.constraint_verdicts import judge_constraints
from assay.model.resolving.resolution import ConditionVerdict
from assay.model.resolving.resolver import Resolver
from assay.model.tapes.cones import Cones

BOUNDS_OF = "bounds of "
"""How the name of the bounds of a computed variable begins."""


@dataclass(frozen=True, slots=True)
class ConstraintCheck:
    """A condition that a feasible point fulfills, and the choices that it depends on."""

    name: str
    text: str
    meaning: str
    condition: Expression
    choices: frozenset[str]

    @property
    def margin(self) -> Expression:
        """How far the condition is from failing; negative where it fails."""
        try:
            return margin(self.condition)
        except DeclarationError:
            return where(self.condition, Number(0.0), Number(-1.0))


@dataclass(frozen=True, slots=True)
class ConstraintChecks:
    """Checks that depend on the choices, verdicts that hold for all of them, and unknown ones."""

    checks: list[ConstraintCheck] = field(default_factory=list)
    fixed: list[ConditionVerdict] = field(default_factory=list)
    unknown: list[ConditionVerdict] = field(default_factory=list)


def find_constraint_checks(
    cones: Cones, targets: Sequence[str], choices: Collection[str], given: Mapping[str, float]
) -> ConstraintChecks:
    """Collect every constraint that the given values and the choices determine.

    Besides the graph's inequalities these are the bounds of every computed variable in their cones
    and in those of the targets. What does not depend on the choices is judged here, once.
    """
    checks = ConstraintChecks()
    involved = dict.fromkeys(cones.upstream(targets))
    chosen = set(choices)
    known = {name: value for name, value in given.items() if name not in chosen}
    judged = judge_constraints(
        Resolver(cones.registry, Inputs(known), cones.variants, switch=cones.switch)
    )
    verdicts = {verdict.name: verdict for verdict in judged.verdicts}
    checks.fixed.extend(judged.broken_bounds)
    for constraint in cones.registry.constraints.values():
        facts = (constraint.name, constraint.text)
        try:
            below = cones.upstream(constraint.inputs)
            if chosen.isdisjoint(below) and verdicts[constraint.name].status != "unknown":
                checks.fixed.append(verdicts[constraint.name])
                continue
            gaps = cones.missing_inputs(constraint.inputs)
        except AssayError as error:
            checks.unknown.append(
                ConditionVerdict(*facts, "unknown", constraint.meaning, reason=error.message)
            )
            continue
        if gaps:
            checks.unknown.append(
                ConditionVerdict(*facts, "unknown", constraint.meaning, missing=tuple(gaps))
            )
            continue
        involved.update(dict.fromkeys(below))
        condition = constraint.part("expression")
        depends = frozenset(chosen.intersection(below))
        checks.checks.append(ConstraintCheck(*facts, constraint.meaning, condition, depends))
    settled = {verdict.name for verdict in judged.broken_bounds}
    bounds = _bound_checks(cones, involved, chosen)
    checks.checks.extend(check for check in bounds if check.name not in settled)
    return checks


def _bound_checks(cones: Cones, names: Collection[str], chosen: set[str]) -> list[ConstraintCheck]:
    depends = _dependence(cones, names, chosen)
    checks = []
    for name in names:
        if not cones.needs(name):
            continue
        variable = cones.registry.variables[name]
        condition = _within_bounds(variable)
        if condition is None:
            continue
        checks.append(
            ConstraintCheck(
                f"{BOUNDS_OF}{name}",
                variable.bounds,
                "computed value within its bounds",
                condition,
                frozenset(depends.get(name, ())),
            )
        )
    return checks


def _dependence(cones: Cones, names: Iterable[str], chosen: set[str]) -> dict[str, set[str]]:
    """The choices that each name depends on: from each choice once through all that need it."""
    needed_by: dict[str, list[str]] = {}
    for name in cones.upstream(names):
        for needed in cones.needs(name):
            needed_by.setdefault(needed, []).append(name)
    depends: dict[str, set[str]] = {}
    for choice in chosen:
        stack, seen = [choice], {choice}
        while stack:
            name = stack.pop()
            depends.setdefault(name, set()).add(choice)
            for above in needed_by.get(name, ()):
                if above not in seen:
                    seen.add(above)
                    stack.append(above)
    return depends


def _within_bounds(variable: Variable) -> Expression | None:
    value = Symbol(variable.name)
    above = value >= variable.lower if math.isfinite(variable.lower) else None
    below = value <= variable.upper if math.isfinite(variable.upper) else None
    if above is None or below is None:
        return above if below is None else below
    return above & below
