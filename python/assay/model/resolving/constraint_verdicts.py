"""Verdicts on the constraints of a scenario, whatever variable is asked for.

A constraint is judged where the given values determine all its inputs. A scenario that does not fit
in memory does not fit for any answer, so the target plays no part in which constraints are judged.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Generator, Iterator
from typing import NamedTuple

from assay.model.language.relations import Inequality
from assay.model.language.variables import Variable
from assay.model.resolving.resolution import ConditionVerdict
from assay.model.resolving.resolver import Resolver


class ConstraintVerdicts(NamedTuple):
    """A verdict for every inequality of the registry, and the bounds that the judged ones break."""

    verdicts: tuple[ConditionVerdict, ...]
    reached: frozenset[str]
    broken_bounds: tuple[ConditionVerdict, ...]

    @property
    def violated(self) -> list[ConditionVerdict]:
        """Inequalities and bounds that do not hold."""
        return [*(v for v in self.verdicts if v.status == "false"), *self.broken_bounds]

    def around(
        self, resolver: Resolver, cone: set[str]
    ) -> tuple[list[ConditionVerdict], list[ConditionVerdict]]:
        """The verdicts beside a value with this cone, and those of unjudged constraints elsewhere.

        Beside a value stand all constraints that are judged, and those on its cone that are not.
        """
        constraints = resolver.registry.constraints
        beside: list[ConditionVerdict] = []
        elsewhere: list[ConditionVerdict] = []
        for verdict in self.verdicts:
            is_near = not cone.isdisjoint(constraints[verdict.name].inputs)
            is_judged = verdict.status != "unknown"
            (beside if is_judged or is_near else elsewhere).append(verdict)
        beside += self.broken_bounds
        beside += _broken_bounds(resolver, cone.difference(self.reached))
        return beside, elsewhere


def judge_constraints(resolver: Resolver) -> ConstraintVerdicts:
    """Judge every inequality of the registry at the resolver's given values."""
    judge = _Judge(resolver)
    verdicts = []
    inputs: dict[str, None] = {}
    for constraint in resolver.registry.constraints.values():
        verdict = judge.lacking(constraint) or judge.verdict_on(constraint.name, constraint)
        verdicts.append(verdict)
        if verdict.status != "unknown":
            inputs.update(dict.fromkeys(constraint.inputs))
    reached = judge.cone(*inputs)
    broken = tuple(_broken_bounds(judge, reached))
    return ConstraintVerdicts(tuple(verdicts), frozenset(reached), broken)


class _Judge(Resolver):
    """Extends the values of a resolver to the inputs of constraints.

    It stops at the first missing input of a variable: most constraints of a small scenario lack
    some, and to walk the rest of their cones costs more than the answer. What is missing stays
    here, so that the resolver still lists every missing input of its own targets.
    """

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(
            resolver.registry, resolver.inputs, resolver.variants, switch=resolver.switch
        )
        self.values = ChainMap({}, resolver.values)
        self.chosen = ChainMap({}, resolver.chosen)
        self.needs = ChainMap({}, resolver.needs)

    def lacking(self, constraint: Inequality) -> ConditionVerdict | None:
        """The verdict on a constraint that refers to missing inputs itself; its cone stays unread."""
        variables, given = self.registry.variables, self.inputs.values
        names = [n for n in constraint.inputs if n in variables and n not in given]
        if missing := tuple(name for name in names if variables[name].is_given(self.variants)):
            condition, meaning = (constraint, "expression"), constraint.meaning
            return ConditionVerdict(constraint.name, condition, "unknown", meaning, missing=missing)
        return None

    def _collect(
        self, names: tuple[str, ...]
    ) -> Generator[str, float | None, dict[str, float] | None]:
        values: dict[str, float] = {}
        for name in names:
            value = yield name
            if value is None:
                return None
            values[name] = value
        return values


def _broken_bounds(resolver: Resolver, names: Collection[str]) -> Iterator[ConditionVerdict]:
    """Verdicts on the computed values among the names that lie outside their bounds."""
    for name, value in list(resolver.values.items()):
        if name not in names or value is None or name not in resolver.chosen:
            continue
        variable: Variable = resolver.registry.variables[name]
        if not variable.lower <= value <= variable.upper:
            yield ConditionVerdict(
                f"bounds of {name}",
                variable.bounds,
                "false",
                "computed value out of bounds",
                values=((variable, value),),
            )
