"""The whole model as one tape, for a page that evaluates it without this program.

Every variable may be given or computed at a point: the tape's inputs say which, so that one tape
serves every scenario, with every choice of relation, every simultaneous block and every missing
input. What is decided per point is decided by the tape, as `Resolver` decides it.

For each variable the inputs are its given value, whether it is given (1 or 0) and a probe, which is 0:
the derivative of a variable's gap by the probe of another is not 0 where that other one is part of its
cone. For each variable with several relations a further input numbers the chosen variant from 1, 0 for
none. For each name that a rule of the caller asks about, an input says whether it is given exactly.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from assay._native import Tape
from assay.errors import AmbiguityError
from assay.model import store
from assay.model.dependency_walk import Walk, walk
from assay.model.language.conditions import certain, possible
from assay.model.language.encoding import encode
from assay.model.language.expression import Expression, variables_of
from assay.model.language.relations import Relation
from assay.model.language.variables import Variable
from assay.model.resolving.resolver import CONFLICT_TOLERANCE
from assay.model.selection import candidates, find_variant
from assay.model.tapes.gaps import Arithmetic, Slot, gap_of
from assay.model.tapes.program import TapeProgram, TapeValue
from assay.model.tapes.whole_block import BlockLowering

if TYPE_CHECKING:
    from assay.model.declarations import Declarations, SimultaneousBlock

FORMAT: Final = 3
"""Raised whenever the meaning of the tape changes."""
UNKNOWN: Final = 0.5
"""The status of a condition that is neither true (1) nor false (0)."""


class WholeTape(NamedTuple):
    """The tape and the names of its inputs and outputs, in order, section by section."""

    tape: Tape
    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]


def whole_tape(registry: Declarations, rules: Sequence[Expression] = ()) -> WholeTape:
    """Lower every variable, constraint and validity condition, and further expressions.

    The symbols of `rules` are `value NAME` and `exact NAME`, inputs of the tape, and
    `chosen NAME=RELATION`.
    """
    whole = _Whole(registry, rules)
    key = store.fingerprint("whole", FORMAT, registry.key, [encode(rule) for rule in rules])
    return WholeTape(store.cached_tape(key, whole.lower), whole.inputs, whole.outputs)


class _Computed(NamedTuple):
    """What the relations of a variable give: value, gap, gap of all inputs, number of the relation."""

    value: TapeValue
    gap: TapeValue
    complete: TapeValue
    relation: TapeValue


class _Whole:
    """Lowers the model to a program."""

    def __init__(self, registry: Declarations, rules: Sequence[Expression]) -> None:
        self.registry = registry
        self.rules = rules
        variables = registry.variables
        names = list(variables)
        computed = [name for name in names if not variables[name].is_root]
        several = [name for name in computed if len(variables[name].defining_equations) > 1]
        # Alternatives to a value that is given are not on the tape, nor where they are valid.
        left_out = {
            relation.name
            for name in names
            if variables[name].is_root
            for relation in variables[name].defining_equations
        }
        conditional = [
            relation.name
            for relation in registry.relations.values()
            if relation.validity is not None
            and relation.name not in registry.constraints
            and relation.name not in left_out
        ]
        exact = dict.fromkeys(
            symbol.removeprefix("exact ")
            for rule in rules
            for symbol in variables_of(rule)
            if symbol.startswith("exact ")
        )
        self.inputs: dict[str, list[str]] = {
            "value": names, "given": names, "probe": names, "variant": several, "exact": list(exact),
        }  # fmt: skip
        self.outputs: dict[str, list[str]] = {
            "value": names, "gap": names, "computed": computed, "conflict": computed,
            "broken": computed, "relation": several, "constraint": list(registry.constraints),
            "validity": conditional,
            "rule": [str(number) for number in range(len(rules))],
        }  # fmt: skip
        self.slots: dict[str, Slot] = {}
        self.computed: dict[str, _Computed] = {}

    @cached_property
    def places(self) -> dict[tuple[str, str], int]:
        """The position of each input by section and name."""
        pairs = [(section, name) for section, names in self.inputs.items() for name in names]
        return {pair: place for place, pair in enumerate(pairs)}

    def input(self, section: str, name: str) -> TapeValue:
        return self.program.input(self.places[section, name])

    def lower(self) -> Tape:
        """Write the program."""
        self.program = TapeProgram(len(self.places))
        self.arithmetic = Arithmetic(self.program)
        registry, slots = self.registry, self.slots
        for name in (*registry.constants, *registry.variables):
            walk(name, self._walk, slots)
        computed = [self.computed[name] for name in self.outputs["computed"]]
        by_name = {relation.name: relation for relation in registry.relations.values()}
        results = [
            *(slots[name].value for name in registry.variables),
            *(slots[name].gap for name in registry.variables),
            *(found.value for found in computed),
            *(self._conflict(name) for name in self.outputs["conflict"]),
            *(self._broken(registry.variables[name]) for name in self.outputs["broken"]),
            *(self.computed[name].relation for name in self.outputs["relation"]),
            *(self._status(c.part("expression")) for c in registry.constraints.values()),
            *(self._status(by_name[name].part("valid")) for name in self.outputs["validity"]),
        ]
        results += [self.program.expression(rule, self._stated) for rule in self.rules]
        return self.program.finish(results)

    def _walk(self, name: str) -> Walk[Slot]:
        constant = self.registry.constants.get(name)
        if constant is not None:
            return Slot(self.program.constant(constant.value), self.arithmetic.zero)
        variable = self.registry.variables[name]
        if variable.is_root:
            absent = self.program.emit("sub", self.arithmetic.one, self.input("given", name))
            gap = self.arithmetic.total((absent, self.input("probe", name)))
            return Slot(self.input("value", name), gap)
        block = self.registry.block_of.get(name)
        if block is not None:
            yield from self._walk_block(block)
            return self.slots[name]
        computed = yield from self._choice(variable)
        self.computed[name] = computed
        return self._slot(name, computed.value, computed.gap)

    def _slot(self, name: str, value: TapeValue, gap: TapeValue) -> Slot:
        """A variable that a given value replaces."""
        given, select = self.input("given", name), self.arithmetic.select
        return Slot(
            select(given, self.input("value", name), value),
            self.arithmetic.total(
                (select(given, self.arithmetic.zero, gap), self.input("probe", name))
            ),
        )

    def _choice(self, variable: Variable) -> Generator[str, Slot, _Computed]:
        """The relation in use: the chosen variant or the preferred one, or what replaces it."""
        relations = list(variable.defining_equations)
        each = {}
        for relation in relations:
            each[relation.name] = yield from self._relation(relation, relations.index(relation))
        try:
            default = candidates(variable, {})
        except AmbiguityError:
            nothing = self.program.constant(math.nan)
            result = _Computed(nothing, nothing, nothing, nothing)
        else:
            result = yield from self._first_valid(default, each)
        if len(relations) > 1:
            variant = self.input("variant", variable.name)
            for number, relation in enumerate(relations, start=1):
                chosen = candidates(variable, {variable.name: relation.name})
                ordered = yield from self._first_valid(chosen, each)
                is_chosen = self.program.emit("eq", variant, self.program.constant(float(number)))
                result = self._select(is_chosen, ordered, result)
        return result

    def _select(self, condition: TapeValue, then: _Computed, otherwise: _Computed) -> _Computed:
        pairs = zip(then, otherwise, strict=True)
        return _Computed(*(self.arithmetic.select(condition, *pair) for pair in pairs))

    def _first_valid(
        self, choices: Sequence[Relation], each: Mapping[str, _Computed]
    ) -> Generator[str, Slot, _Computed]:
        """The first relation, unless it is known to be invalid and a later one to be valid."""
        first = each[choices[0].name]
        condition = choices[0].validity
        if len(choices) == 1 or condition is None:
            return first
        arithmetic = self.arithmetic
        result = first
        for relation in reversed(choices[1:]):
            other = each[relation.name]
            valid, failure = arithmetic.one, arithmetic.zero
            if relation.validity is not None:
                gap = yield from self._gap(variables_of(relation.validity))
                holds = self._expression(certain(relation.validity))
                valid = arithmetic.both(arithmetic.is_zero(gap), holds)
                failure = arithmetic.failure(gap)
            lost = arithmetic.select(valid, arithmetic.failure(other.complete), arithmetic.zero)
            usable = arithmetic.both(valid, arithmetic.is_zero(other.complete))
            result = self._select(usable, other, result)
            result = result._replace(gap=arithmetic.total((result.gap, failure, lost)))
        gap = yield from self._gap(variables_of(condition))
        refuted = self.program.emit("not", self._expression(possible(condition)))
        invalid = arithmetic.both(arithmetic.is_zero(gap), refuted)
        result = self._select(invalid, result, first)
        return result._replace(gap=arithmetic.total((result.gap, arithmetic.failure(gap))))

    def _relation(self, relation: Relation, number: int) -> Generator[str, Slot, _Computed]:
        complete = yield from self._gap(relation.inputs)
        expression = relation.expression
        place = self.program.constant(float(number))
        if expression is None:
            # A differential or stochastic relation: what needs it has no value here.
            nothing = self.program.constant(math.nan)
            return _Computed(nothing, nothing, nothing, place)
        nodes: dict[int, TapeValue] = {}
        value = self.program.expression(expression, self._value, nodes)
        gap = complete
        if "select" in relation.parts.get("expression", ""):
            # Where all inputs are known, all count as needed, those of branches not taken too.
            taken = gap_of(self.arithmetic, expression, self.slots, lambda node: nodes[id(node)])
            if taken != complete:
                partly = self.arithmetic.total((taken, self.arithmetic.failure(complete)))
                gap = self.arithmetic.select(self.arithmetic.is_zero(complete), complete, partly)
        # A number alone is the default of a choice, which a given value contradicts never.
        shown = complete if relation.inputs else self.arithmetic.one
        return _Computed(value, self.arithmetic.finite(gap, value), shown, place)

    def _gap(self, names: Sequence[str]) -> Generator[str, Slot, TapeValue]:
        """The gap of what needs all these variables, which are lowered first."""
        gaps = []
        for name in names:
            slot = self.slots[name] if name in self.slots else (yield name)
            gaps.append(slot.gap)
        return self.arithmetic.total(gaps)

    def _value(self, name: str) -> TapeValue:
        return self.slots[name].value

    def _expression(self, expression: Expression) -> TapeValue:
        return self.program.expression(expression, self._value)

    def _stated(self, symbol: str) -> TapeValue:
        """A symbol of a rule: an input of the tape, or whether a relation is chosen."""
        section, _, name = symbol.partition(" ")
        if section != "chosen":
            return self.input(section, name)
        variable, _, relation = name.partition("=")
        relations = self.registry.variable(variable).defining_equations
        number = relations.index(find_variant(self.registry.variables[variable], relation)) + 1
        chosen = self.input("variant", variable)
        return self.program.emit("eq", chosen, self.program.constant(float(number)))

    def _status(self, condition: Expression) -> TapeValue:
        gap = self.arithmetic.total(self.slots[name].gap for name in variables_of(condition))
        unknown = self.program.constant(UNKNOWN)
        maybe = self._expression(possible(condition))
        refuted = self.arithmetic.select(maybe, unknown, self.arithmetic.zero)
        judged = self.arithmetic.select(
            self._expression(certain(condition)), self.arithmetic.one, refuted
        )
        return self.arithmetic.select(self.arithmetic.is_zero(gap), judged, unknown)

    def _conflict(self, name: str) -> TapeValue:
        """Whether a given value contradicts the variable's own equation."""
        found, stated, emit = self.computed[name], self.input("value", name), self.program.emit
        size = emit("maximum", emit("abs", found.value), emit("abs", stated))
        allowed = emit("mul", self.program.constant(CONFLICT_TOLERANCE), size)
        apart = emit("gt", emit("abs", emit("sub", found.value, stated)), allowed)
        known = self.arithmetic.is_zero(found.complete)
        return self.arithmetic.both(self.input("given", name), known, apart)

    def _broken(self, variable: Variable) -> TapeValue:
        """Whether a computed value lies outside the bounds of its variable."""
        slot, emit = self.slots[variable.name], self.program.emit
        outside = [
            emit(operation, slot.value, self.program.constant(bound))
            for operation, bound in (("lt", variable.lower), ("gt", variable.upper))
            if math.isfinite(bound)
        ]
        if not outside:
            return self.arithmetic.zero
        beyond = outside[0] if len(outside) == 1 else emit("or", *outside)
        computed = emit("not", self.input("given", variable.name))
        return self.arithmetic.both(self.arithmetic.is_zero(slot.gap), computed, beyond)

    def _walk_block(self, block: SimultaneousBlock) -> Generator[str, Slot, None]:
        """Lower the members of a block, any of which may be given."""
        arithmetic = self.arithmetic
        lowering = BlockLowering(arithmetic, self.registry, block, self.slots, self.input)
        outside = {name for needs in lowering.needs.values() for name in needs.inputs}
        yield from self._gap([name for name in sorted(outside) if name not in block.members])
        values, gap = lowering.lower()
        for member in block.members:
            self.slots[member] = self._slot(
                member, values[member], arithmetic.finite(gap, values[member])
            )
        for member in block.members:
            relation = lowering.relation_number(member, values)
            value, complete = lowering.first_relation(member, values)
            self.computed[member] = _Computed(value, gap, complete, relation)
