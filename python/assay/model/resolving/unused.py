"""Given values that an answer does not depend on, and why not.

A relation uses what its value was computed from: of a choice between expressions, the condition and
the branch taken. Where a given value is not reached from any target, the reason is the first place
on its way to one that does not let it through: a variable that is given itself, another relation,
or another branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.errors import AssayError
from assay.model.language.conditions import verdict
from assay.model.language.encoding import evaluate_partly
from assay.model.language.expression import Expression, Operation, postorder, variables_of
from assay.model.language.relations import Relation
from assay.model.language.variables import FLAG
from assay.model.registry import Registry
from assay.model.resolving.resolver import Resolver

_BRANCH, _GIVEN, _VARIANT = range(3)
"""Kinds of places that stop a value, the one that is easiest to change first."""
_MOST_CONSTRAINTS: Final = 3
"""Constraints that a note names."""


class UnusedInput(NamedTuple):
    """A given value that no target depends on; `remedy` are options that would use it."""

    name: str
    reason: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The finding as one line of text."""
        remedy = f"; {self.remedy} uses it" if self.remedy else ""
        return f"{self.name}: not used: {self.reason}{remedy}"


@dataclass(frozen=True, slots=True)
class _Stop:
    """A place where a value is not let through: at a variable, by a kind of reason."""

    variable: str
    kind: int
    reason: str
    remedy: str = ""


def unused_inputs(
    resolver: Resolver, targets: Sequence[str], names: Iterable[str], free: Collection[str] = ()
) -> list[UnusedInput]:
    """The given values among `names` that no target depends on.

    `free` are variables whose values are searched or swept: nothing below them is used.
    """
    for target in targets:
        try:
            resolver.value(target)
        except AssayError:
            # A target without a value says so itself.
            return []
    cone = used_cone(resolver, targets, free)
    unused = [name for name in names if name not in cone]
    return list(_explain(resolver, targets, unused, cone, free)) if unused else []


def used_cone(resolver: Resolver, targets: Iterable[str], free: Collection[str] = ()) -> set[str]:
    """The targets and everything that their values depend on, by the branches taken."""
    seen = set(targets)
    stack = list(seen)
    while stack:
        name = stack.pop()
        if name in free:
            continue
        for needed in _used_by(resolver, name):
            if needed not in seen:
                seen.add(needed)
                stack.append(needed)
    return seen


def _used_by(resolver: Resolver, name: str) -> tuple[str, ...]:
    relation = resolver.chosen.get(name)
    if relation is None:
        return ()
    needs = resolver.needs.get(name, relation.inputs)
    text = relation.parts.get("expression", "")
    if "select" in text:
        known = {n: v for n in relation.inputs if (v := resolver.values.get(n)) is not None}
        needs = evaluate_partly(relation.entries("expression"), known)[1]
    return (*needs, *relation.part_variables("valid"))


def _explain(
    resolver: Resolver,
    targets: Sequence[str],
    unused: Sequence[str],
    cone: set[str],
    free: Collection[str],
) -> Iterator[UnusedInput]:
    registry = resolver.registry
    assert isinstance(registry, Registry)
    graph = registry.graph
    upstream = set(targets).union(*(graph.ancestors(target) for target in targets))
    deciding = _constraints(resolver, unused)
    asked = targets[0] if len(targets) == 1 else "no target asked for"
    negation = " does not depend" if len(targets) == 1 else " depends"
    for name in unused:
        stops = list(_stops(resolver, name, upstream, free)) if name in upstream else []
        # One change is enough where the target depends on the variable that stops the value.
        nearest = min(stops, key=lambda stop: (stop.variable not in cone, stop.kind), default=None)
        constraints = deciding[name]
        if nearest is not None and not (constraints and nearest.kind == _VARIANT):
            yield UnusedInput(name, nearest.reason, nearest.remedy)
        elif constraints:
            shown = ", ".join(constraints[:_MOST_CONSTRAINTS])
            more = len(constraints) - _MOST_CONSTRAINTS
            rest = f" and {more} more" if more > 0 else ""
            yield UnusedInput(name, f"{asked}{negation} on it, only the limits {shown}{rest} do")
        else:
            yield UnusedInput(name, f"{asked}{negation} on it")


def _stops(
    resolver: Resolver, name: str, upstream: Collection[str], free: Collection[str]
) -> Iterator[_Stop]:
    """Places between a value and the targets that do not let it through, the nearest first."""
    registry = resolver.registry
    assert isinstance(registry, Registry)
    seen = {name}
    queue = [name]
    while queue:
        current = queue.pop(0)
        for relation in registry.graph.users[current]:
            variable = relation.variable
            if variable not in upstream or _is_alternative(resolver, relation):
                continue
            stop = _stop(resolver, current, relation, free)
            if stop is not None:
                yield stop
            elif variable not in seen:
                seen.add(variable)
                queue.append(variable)


def _is_alternative(resolver: Resolver, relation: Relation) -> bool:
    """Whether a relation would define a stated quantity if it were chosen, and is not."""
    variable = resolver.registry.variables.get(relation.variable)
    return variable is not None and variable.is_given(resolver.variants)


def _stop(
    resolver: Resolver, current: str, relation: Relation, free: Collection[str]
) -> _Stop | None:
    """Why a relation that has a variable among its inputs does not use it; None where it does."""
    variable = relation.variable
    if variable in free:
        return _Stop(variable, _GIVEN, f"{variable} is varied")
    if variable in resolver.inputs.values:
        return _Stop(variable, _GIVEN, f"{variable} is given")
    try:
        resolver.value(variable)
    except AssayError:
        return None
    chosen = resolver.chosen.get(variable)
    if chosen is None:
        return None
    if chosen is not relation:
        return _Stop(
            variable,
            _VARIANT,
            f"{variable} is computed by {chosen.name}",
            f"--variant {variable}={relation.name}",
        )
    if current in _used_by(resolver, variable):
        return None
    return _branch_stop(resolver, current, relation)


def _branch_stop(resolver: Resolver, current: str, relation: Relation) -> _Stop:
    for node in postorder(relation.part("expression")):
        if not isinstance(node, Operation) or node.operator != "select":
            continue
        condition, *branches = node.operands
        names = variables_of(condition)
        known = {n: v for n in names if (v := resolver.values.get(n)) is not None}
        if len(known) < len(names):
            continue
        taken = bool(verdict(condition, known))
        if current in variables_of(branches[taken]):
            return _condition_stop(resolver, relation.variable, condition, taken=taken)
    return _Stop(relation.variable, _BRANCH, f"{relation.variable} takes another branch")


def _condition_stop(
    resolver: Resolver, variable: str, condition: Expression, *, taken: bool
) -> _Stop:
    names = variables_of(condition)
    if len(names) == 1 and names[0] in resolver.registry.variables:
        flag = resolver.registry.variables[names[0]]
        # The other value of a flag takes the other branch.
        if flag.cases == FLAG:
            value = resolver.values[flag.name] or 0.0
            other = 1.0 - value
            reason = f"{flag.name} is {value:g} ({flag.meaning})"
            return _Stop(variable, _BRANCH, reason, f"--set {flag.name}={other:g}")
    where = f"not {condition}" if taken else str(condition)
    return _Stop(variable, _BRANCH, f"{variable} uses it only where {where}")


def _constraints(resolver: Resolver, names: Sequence[str]) -> dict[str, list[str]]:
    """The judged constraints that depend on each name."""
    deciding: dict[str, list[str]] = {name: [] for name in names}
    for constraint in resolver.registry.constraints.values():
        try:
            values = [resolver.value(needed) for needed in constraint.inputs]
        except AssayError:
            continue
        if None not in values:
            cone = used_cone(resolver, constraint.inputs)
            for name in cone.intersection(names):
                deciding[name].append(constraint.name)
    return deciding
