"""The resolver: values of variables at one point, with the relations that gave them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, MutableMapping
from typing import TYPE_CHECKING

from assay.errors import AssayError
from assay.model.declarations import SimultaneousBlock
from assay.model.dependency_walk import Walk, walk
from assay.model.graphs.digraph import distances
from assay.model.inputs import Inputs
from assay.model.language.conditions import verdict
from assay.model.language.dynamics import Stochastic
from assay.model.language.encoding import evaluate_numbers
from assay.model.language.relations import Relation
from assay.model.language.variables import Variable
from assay.model.resolving.resolution import (
    ConditionVerdict,
    Conflict,
    MissingInput,
    Switch,
    TraceStep,
)
from assay.model.selection import candidates, combined, until_certain

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

CONFLICT_TOLERANCE = 1e-9
"""Relative difference up to which a pinned value agrees with its own equation."""


class Resolver:
    """Values of variables at one point, each computed on first use."""

    def __init__(
        self,
        registry: Declarations,
        inputs: Inputs,
        variants: Mapping[str, str],
        *,
        switch: bool = True,
    ) -> None:
        """Start from given inputs in base units."""
        self.registry = registry
        self.inputs = inputs
        self.variants = variants
        self.switch = switch
        self.values: MutableMapping[str, float | None] = {}
        self.chosen: MutableMapping[str, Relation] = {}
        self.needs: MutableMapping[str, tuple[str, ...]] = {}
        self.switches: dict[str, Switch] = {}
        self._validity: dict[str, ConditionVerdict] = {}
        self._conflicts: list[Conflict] | None = None

    @property
    def known_values(self) -> dict[str, float]:
        """Every value computed so far."""
        return {name: value for name, value in self.values.items() if value is not None}

    def value(self, name: str) -> float | None:
        """The value of a variable in base units, None when inputs are missing."""
        return walk(name, self._walk, self.values)

    def _walk(self, name: str) -> Walk[float | None]:
        if name in self.inputs.values:
            return self.inputs.values[name]
        if name in self.registry.constants:
            return self.registry.constants[name].value
        variable = self.registry.variable(name)
        if variable.is_given(self.variants):
            return None
        block = self.registry.block_of.get(name)
        if block is not None:
            return (yield from self._walk_block(name, block))
        choices = candidates(variable, self.variants)
        relation = choices[0]
        if self.switch and len(choices) > 1:
            relation = yield from self._first_valid(name, choices)
        self.chosen[name] = relation
        self.needs[name] = relation.inputs
        values = yield from self._collect(relation.inputs)
        if values is not None:
            return relation.evaluate_rhs(values)
        return (yield from self._evaluate_partly(name, relation))

    def _evaluate_partly(self, name: str, relation: Relation) -> Walk[float | None]:
        """The value where inputs are missing that only branches not taken would need."""
        if "select" not in relation.parts.get("expression", ""):
            return None
        known: dict[str, float] = {}
        for needed in relation.inputs:
            value = self.values[needed] if needed in self.values else (yield needed)
            if value is not None:
                known[needed] = value
        result, self.needs[name] = relation.evaluate_partly(known)
        return result

    def _collect(
        self, names: tuple[str, ...]
    ) -> Generator[str, float | None, dict[str, float] | None]:
        values: dict[str, float] = {}
        known = self.values
        complete = True
        for name in names:
            value = known[name] if name in known else (yield name)
            if value is None:
                complete = False
            else:
                values[name] = value
        return values if complete else None

    def _first_valid(
        self, name: str, choices: list[Relation]
    ) -> Generator[str, float | None, Relation]:
        """The first relation, unless it is known to be invalid and a later one to be valid."""
        first = choices[0]
        if (yield from self._is_valid(first)) is not False:
            return first
        for relation in choices[1:]:
            if (yield from self._is_valid(relation)) is not True:
                continue
            if (yield from self._collect(relation.inputs)) is None:
                continue
            self._record_switch(name, first, relation)
            return relation
        return first

    def _is_valid(self, relation: Relation) -> Generator[str, float | None, bool | None]:
        if not relation.is_conditional:
            return True
        values = yield from self._collect(relation.valid_inputs)
        return None if values is None else _holds(relation, "valid", values)

    def _walk_block(self, name: str, block: SimultaneousBlock) -> Walk[float | None]:
        members = [member for member in block.members if member not in self.inputs.values]
        choices: dict[str, list[Relation]] = {}
        for member in members:
            choices[member] = yield from self._usable(member, members)
        relations = {member: combined(chosen) for member, chosen in choices.items()}
        needed = dict.fromkeys(n for r in relations.values() for n in r.inputs if n not in members)
        values = yield from self._collect(tuple(needed))
        solved = None
        if values is not None:
            # Few cones contain a block; solving one imports the tapes, which resolving does not need.
            from assay.model.tapes.blocks import solve_block

            solved = solve_block(self.registry, block, relations, values)
        for member in members:
            relation = choices[member][0]
            if values is not None and solved is not None:
                relation = _valid_at(choices[member], {**values, **solved})
                self._record_switch(member, choices[member][0], relation)
            self.chosen[member] = relation
            self.needs[member] = relation.inputs
            if member != name:
                self.values[member] = None if solved is None else solved[member]
        return None if solved is None else solved[name]

    def _usable(
        self, name: str, members: list[str]
    ) -> Generator[str, float | None, list[Relation]]:
        """Relations of a block's member whose inputs from outside the block are all known."""
        first, *others = candidates(self.registry.variables[name], self.variants)
        if not self.switch or not (yield from self._known(first.part_variables("valid"), members)):
            return [first]
        usable = [first]
        for relation in others:
            needed = (*relation.part_variables("valid"), *relation.inputs)
            if relation.expression is not None and (yield from self._known(needed, members)):
                usable.append(relation)
        return usable

    def _known(
        self, names: tuple[str, ...], members: list[str]
    ) -> Generator[str, float | None, bool]:
        outside = tuple(name for name in names if name not in members)
        return (yield from self._collect(outside)) is not None

    def _record_switch(self, name: str, left: Relation, used: Relation) -> None:
        if used is not left:
            self.switches[name] = Switch(name, left.name, used.name, str(left.validity))

    def cone(self, *targets: str) -> set[str]:
        """The targets and everything their values were or would be computed from."""
        seen = set(targets)
        stack = list(targets)
        while stack:
            for needed in self.needs.get(stack.pop(), ()):
                if needed not in seen:
                    seen.add(needed)
                    stack.append(needed)
        return seen

    def missing(self, target: str) -> list[MissingInput]:
        """Inputs of the target's cone without a value, nearest first, with the variables that need them."""
        if self.values.get(target) is not None:
            return []
        distance = distances(target, defaultdict(tuple, self.needs))
        needed_by: dict[str, list[str]] = {
            name: []
            for name, value in self.values.items()
            if value is None and name in distance and name not in self.needs
        }
        for dependent in self.values:
            if dependent in distance:
                for needed in needed_by.keys() & self.needs.get(dependent, ()):
                    needed_by[needed].append(dependent)
        return [
            MissingInput(self.registry.variables[name], tuple(dependents))
            for name, dependents in sorted(needed_by.items(), key=lambda item: distance[item[0]])
        ]

    def trace(self, cone: set[str]) -> list[TraceStep]:
        """The steps of the computation in order."""
        steps = []
        for name, value in list(self.values.items()):
            if name in cone and value is not None:
                relation = self.chosen.get(name)
                steps.append(TraceStep(self.registry.variable(name), value, relation))
        return steps

    def verdict_on(
        self, name: str, relation: Relation, part: str = "expression"
    ) -> ConditionVerdict:
        """Whether a condition of a relation holds, as far as its inputs are known."""
        condition, meaning = (relation, part), relation.meaning
        try:
            values = {needed: self.value(needed) for needed in relation.part_variables(part)}
        except AssayError as error:
            return ConditionVerdict(name, condition, "unknown", meaning, reason=error.message)
        known = {needed: value for needed, value in values.items() if value is not None}
        if len(known) < len(values):
            gaps = (self._missing_below(needed) for needed in values if needed not in known)
            missing = tuple(dict.fromkeys(gaps))
            return ConditionVerdict(name, condition, "unknown", meaning, missing=missing)
        at = tuple((self.registry.variable(needed), value) for needed, value in known.items())
        holds = _holds(relation, part, known)
        if holds is None:
            reason = "a side of it is not a number"
            return ConditionVerdict(name, condition, "unknown", meaning, reason=reason, values=at)
        return ConditionVerdict(name, condition, "true" if holds else "false", meaning, values=at)

    def _missing_below(self, name: str) -> str:
        """The first missing input that a variable without a value needs.

        Members of a simultaneous block need each other, so each name is followed once.
        """
        seen: set[str] = set()
        stack = [name]
        while stack:
            here = stack.pop()
            seen.add(here)
            gaps = [n for n in self.needs.get(here, ()) if self.values.get(n, 0.0) is None]
            if not gaps:
                return here
            stack.extend(n for n in reversed(gaps) if n not in seen)
        return name

    def cone_in_use(self, target: str) -> set[str]:
        """The target and what its value depends on: of a choice, the branch that it takes.

        A kernel that a choice leaves out may be as far outside its table as it likes.
        """
        known = self.known_values
        seen = {target}
        stack = [target]
        while stack:
            name = stack.pop()
            needs = self.needs.get(name, ())
            if (relation := self.chosen.get(name)) is not None and needs is relation.inputs:
                needs = relation.evaluate_partly(known)[1]
            for needed in needs:
                if needed not in seen:
                    seen.add(needed)
                    stack.append(needed)
        return seen

    def validities(self, cone: set[str]) -> list[ConditionVerdict]:
        """Verdicts on the validity of every approximation in a cone."""
        verdicts = []
        for name in list(self.values):
            relation = self.chosen.get(name)
            if name in cone and relation is not None and "valid" in relation.parts:
                if name not in self._validity:
                    self._validity[name] = self.verdict_on(relation.name, relation, "valid")
                verdicts.append(self._validity[name])
        return verdicts

    def conflicts(self) -> list[Conflict]:
        """Pinned values that contradict their own equation."""
        if self._conflicts is not None:
            return self._conflicts
        conflicts = []
        for name, pinned in self.inputs.values.items():
            variable = self.registry.variables[name]
            if variable.is_given(self.variants):
                continue
            computed = self._recompute(name)
            if computed is None:
                continue
            relation, value = computed
            if abs(value - pinned) > CONFLICT_TOLERANCE * max(abs(value), abs(pinned)):
                replaces = self._replaces(name, relation)
                conflicts.append(Conflict(variable, pinned, value, relation, replaces))
        self._conflicts = conflicts
        return conflicts

    def _replaces(self, name: str, relation: Relation) -> bool:
        """Whether a pinned value is stated beside a scenario that says otherwise."""
        stated = self.inputs.stated
        if name not in stated:
            return False
        return any(n in self.inputs.values and n not in stated for n in self.cone(*relation.inputs))

    def _recompute(self, name: str) -> tuple[Relation, float] | None:
        variable = self.registry.variables[name]
        try:
            relation = self._relation_of(variable)
            if isinstance(relation, Stochastic):
                # A value that could have been drawn contradicts nothing.
                return None
            if not relation.inputs:
                # A number alone is the default of a choice, which a given value replaces.
                return None
            values = {needed: self.value(needed) for needed in relation.inputs}
            if any(value is None for value in values.values()):
                return None
            known = {needed: value for needed, value in values.items() if value is not None}
            return relation, relation.evaluate_rhs(known)
        except AssayError:
            # An equation that is ambiguous or has no value here cannot be contradicted.
            return None

    def _relation_of(self, variable: Variable) -> Relation:
        """The relation that would define a pinned variable; a switch to it is not recorded."""
        choices = candidates(variable, self.variants)
        if not self.switch or len(choices) == 1 or variable.name in self.registry.block_of:
            return choices[0]
        steps = self._first_valid(variable.name, choices)
        answer: float | None = None
        try:
            while True:
                # The first `send` of a generator must be None, which is what it starts from.
                answer = self.value(steps.send(answer))
        except StopIteration as finished:
            self.switches.pop(variable.name, None)
            relation: Relation = finished.value
            return relation


def _holds(relation: Relation, part: str, values: Mapping[str, float]) -> bool | None:
    """Whether a condition holds; its expression is read only where a part of it is not a number."""
    value = evaluate_numbers(relation.entries(part), values)
    return verdict(relation.part(part), values) if value is None else bool(value)


def _valid_at(choices: list[Relation], point: Mapping[str, float]) -> Relation:
    """The relation that a combined one uses at a point."""
    first, *others = choices
    if first.validity is None or verdict(first.validity, point) is not False:
        return first
    for relation in until_certain(others):
        if relation.validity is None or verdict(relation.validity, point):
            return relation
    return first
