"""Simultaneous blocks of the whole model, any member of which may be given at a point.

A given member is an equation `member = its value` of the same block. Which relation defines a member
is decided at the solution, inside the equations that are solved. Several starts are tried, as
`solve_block` does: each further one only where those before it failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import AmbiguityError
from assay.model.language.conditions import certain, possible
from assay.model.language.relations import Relation
from assay.model.selection import candidates
from assay.model.tapes.blocks import MAX_ITERATIONS, TOLERANCE, find_tears, member_order, starts
from assay.model.tapes.gaps import Arithmetic, Slot
from assay.model.tapes.program import PendingBlock, TapeProgram, TapeValue

if TYPE_CHECKING:
    from assay.model.declarations import Declarations, SimultaneousBlock

InputOf = Callable[[str, str], TapeValue]
"""The program's input of a section for a variable."""
Outer = Callable[[TapeValue], TapeValue]
"""A value of the whole program as the program that is written refers to it."""


class _Needs(NamedTuple):
    """What a member's relations refer to, as `find_tears` reads it."""

    inputs: tuple[str, ...]


class BlockLowering:
    """Lowers one block into the program of the whole model."""

    def __init__(
        self,
        arithmetic: Arithmetic,
        registry: Declarations,
        block: SimultaneousBlock,
        slots: Mapping[str, Slot],
        input_of: InputOf,
    ) -> None:
        """Take the program with everything that the block refers to already lowered."""
        self.arithmetic = arithmetic
        self.program = arithmetic.program
        self.registry = registry
        self.block = block
        self.slots = slots
        self.input_of = input_of
        self.relations = {
            member: list(registry.variables[member].defining_equations) for member in block.members
        }
        self.needs = {
            member: _Needs(
                tuple(
                    dict.fromkeys(
                        name
                        for relation in relations
                        for name in (*relation.inputs, *relation.part_variables("valid"))
                    )
                )
            )
            for member, relations in self.relations.items()
        }

    def lower(self) -> tuple[dict[str, TapeValue], TapeValue]:
        """The value of each member, and what the members that are not given lack."""
        gap = self.arithmetic.total(map(self._gap, self.block.members))
        tears = find_tears(self.needs)
        rest = [name for name in member_order(self.needs, tears) or () if name not in tears]
        if not tears:
            known: dict[str, TapeValue] = {}
            for name in rest:
                known[name] = self.chosen(self.program, name, known, lambda value: value)
            return known, gap
        inner, externals, outputs = self._equations(tears, rest)
        is_open = self.arithmetic.is_zero(gap)
        nothing = self.program.constant(math.nan)
        solution: list[TapeValue] = []
        for guess in starts(self.registry, self.block, tears):
            begin = tuple(
                self.arithmetic.select(is_open, self.program.constant(value), nothing)
                for value in guess
            )
            bounds = [self.registry.variables[name] for name in tears]
            members = self.program.block(
                PendingBlock(
                    inner=inner,
                    outputs=outputs,
                    start=begin,
                    externals=externals,
                    lower=tuple(variable.lower for variable in bounds),
                    upper=tuple(variable.upper for variable in bounds),
                    method="newton",
                    tolerance=TOLERANCE,
                    max_iterations=MAX_ITERATIONS,
                )
            )
            if solution:
                pairs = zip(members, solution, strict=True)
                solution = [self.arithmetic.select(is_open, *pair) for pair in pairs]
            else:
                solution = members
            spreads = [self.program.emit("sub", value, value) for value in solution]
            failed = self.program.emit("ne", self.arithmetic.total(spreads), self.arithmetic.zero)
            is_open = self.arithmetic.both(self.arithmetic.is_zero(gap), failed)
        return dict(zip([*tears, *rest], solution, strict=True)), gap

    def _gap(self, member: str) -> TapeValue:
        """What a member lacks unless it is given: inputs of its first relation outside the block."""
        arithmetic = self.arithmetic

        def lacking(choices: Sequence[Relation]) -> TapeValue:
            further = [name for relation in choices[1:] for name in self._outside(relation)]
            failure = arithmetic.failure(arithmetic.total(self.slots[n].gap for n in further))
            gaps = (self.slots[n].gap for n in choices[0].inputs if n not in self.relations)
            return arithmetic.total((*gaps, failure))

        gap = self._by_variant(self.program, member, lambda value: value, lacking)
        gap = arithmetic.select(self.input_of("given", member), arithmetic.zero, gap)
        return arithmetic.total((gap, self.input_of("probe", member)))

    def _outside(self, relation: Relation) -> list[str]:
        names = (*relation.inputs, *relation.part_variables("valid"))
        return [name for name in names if name not in self.relations]

    def _equations(
        self, tears: Sequence[str], rest: Sequence[str]
    ) -> tuple[TapeProgram, tuple[TapeValue, ...], tuple[TapeValue, ...]]:
        """The inner program, the outer values that it reads, and its outputs."""
        inner = TapeProgram(len(tears))
        externals: dict[TapeValue, TapeValue] = {}

        def outer(value: TapeValue) -> TapeValue:
            if value not in externals:
                externals[value] = inner.input(inner.n_inputs)
                inner.n_inputs += 1
            return externals[value]

        known = {name: inner.input(place) for place, name in enumerate(tears)}
        for name in rest:
            known[name] = self._member(inner, name, known, outer)
        updated = [self._member(inner, name, known, outer) for name in tears]
        return inner, tuple(externals), (*updated, *(known[name] for name in rest))

    def _member(
        self, inner: TapeProgram, name: str, known: Mapping[str, TapeValue], outer: Outer
    ) -> TapeValue:
        """A member's equation: its given value, or its relation."""
        computed = self.chosen(inner, name, known, outer)
        given, value = (outer(self.input_of(section, name)) for section in ("given", "value"))
        return inner.emit("select", value, computed, given)

    def chosen(
        self, program: TapeProgram, member: str, known: Mapping[str, TapeValue], outer: Outer
    ) -> TapeValue:
        """The right-hand side of the relation in use."""

        def value_of(name: str) -> TapeValue:
            return known[name] if name in known else outer(self.slots[name].value)

        def right(relation: Relation) -> TapeValue:
            expression = relation.expression
            assert expression is not None, f"{relation.name} cannot be part of a block"
            return program.expression(expression, value_of)

        def ordered(choices: Sequence[Relation]) -> TapeValue:
            return self._first_valid(program, choices, value_of, outer, right)

        return self._by_variant(program, member, outer, ordered)

    def relation_number(self, member: str, known: Mapping[str, TapeValue]) -> TapeValue:
        """The number of the relation in use at the solution."""
        numbers = {relation.name: n for n, relation in enumerate(self.relations[member])}

        def ordered(choices: Sequence[Relation]) -> TapeValue:
            return self._first_valid(
                self.program,
                choices,
                lambda name: known[name] if name in known else self.slots[name].value,
                lambda value: value,
                lambda relation: self.program.constant(float(numbers[relation.name])),
            )

        return self._by_variant(self.program, member, lambda value: value, ordered)

    def first_relation(self, member: str, known: Mapping[str, TapeValue]) -> tuple[TapeValue, ...]:
        """What the relation that would define a given member computes, and the gap of its inputs."""
        arithmetic = self.arithmetic
        values = {**{n: slot.value for n, slot in self.slots.items()}, **known}

        def right(choices: Sequence[Relation]) -> TapeValue:
            expression = choices[0].expression
            assert expression is not None
            return self.program.expression(expression, values.__getitem__)

        def gap(choices: Sequence[Relation]) -> TapeValue:
            return arithmetic.total(self.slots[name].gap for name in choices[0].inputs)

        return tuple(
            self._by_variant(self.program, member, lambda value: value, part)
            for part in (right, gap)
        )

    def _by_variant(
        self,
        program: TapeProgram,
        member: str,
        outer: Outer,
        lowered: Callable[[Sequence[Relation]], TapeValue],
    ) -> TapeValue:
        """What follows from the relations in the order that the chosen variant gives them."""
        variable, relations = self.registry.variables[member], self.relations[member]
        try:
            result = lowered(candidates(variable, {}))
        except AmbiguityError:
            result = program.constant(math.nan)
        if len(relations) == 1:
            return result
        variant = outer(self.input_of("variant", member))
        for number, relation in enumerate(relations, start=1):
            chosen = lowered(candidates(variable, {member: relation.name}))
            if chosen != result:
                is_chosen = program.emit("eq", variant, program.constant(float(number)))
                result = program.emit("select", chosen, result, is_chosen)
        return result

    def _first_valid(
        self,
        program: TapeProgram,
        choices: Sequence[Relation],
        value_of: Callable[[str], TapeValue],
        outer: Outer,
        lowered: Callable[[Relation], TapeValue],
    ) -> TapeValue:
        """The first relation, unless it is invalid at the solution and a later one valid."""
        first = lowered(choices[0])
        condition = choices[0].validity
        if len(choices) == 1 or condition is None:
            return first

        def is_usable(names: Sequence[str]) -> TapeValue:
            gap = self.arithmetic.total(self.slots[name].gap for name in names)
            return outer(self.arithmetic.is_zero(gap))

        result = first
        for relation in reversed(choices[1:]):
            if relation.expression is None:
                continue
            holds = is_usable(self._outside(relation))
            if relation.validity is not None:
                valid = program.expression(certain(relation.validity), value_of)
                holds = program.emit("and", holds, valid)
            result = program.emit("select", lowered(relation), result, holds)
        outside = [n for n in choices[0].part_variables("valid") if n not in self.relations]
        maybe = program.expression(possible(condition), value_of)
        keep = program.emit("or", maybe, program.emit("not", is_usable(outside)))
        return program.emit("select", first, result, keep)
