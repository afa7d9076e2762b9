"""What keeps a variable from having a value, as a number beside the value.

A gap is 0 where the value is known, positive where inputs are missing, and NaN where the value cannot
be computed, in a program that has a value and a gap for every variable. A sum of gaps is the gap of
what needs all of them: a failure outweighs a missing input. Gaps are sums and choices of gaps, never
products, so that their derivative by the gap of another variable is not 0 exactly where one is
computed from the other at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder
from assay.model.tapes.program import TapeProgram, TapeValue


class Slot(NamedTuple):
    """A variable in the program: its value and its gap."""

    value: TapeValue
    gap: TapeValue


class Arithmetic:
    """Small combinations of values of one program."""

    def __init__(self, program: TapeProgram) -> None:
        """Write into a program."""
        self.program = program
        self.zero = program.constant(0.0)
        self.one = program.constant(1.0)

    def total(self, values: Iterable[TapeValue]) -> TapeValue:
        """The sum of values, each once; 0 of none."""
        terms = [value for value in dict.fromkeys(values) if value != self.zero]
        result = self.zero
        for place, term in enumerate(terms):
            result = term if place == 0 else self.program.emit("add", result, term)
        return result

    def select(self, condition: TapeValue, then: TapeValue, otherwise: TapeValue) -> TapeValue:
        """One of two values; no instruction where they are the same."""
        return (
            then if then == otherwise else self.program.emit("select", then, otherwise, condition)
        )

    def is_zero(self, value: TapeValue) -> TapeValue:
        """Whether a value is 0, which NaN is not."""
        return self.one if value == self.zero else self.program.emit("eq", value, self.zero)

    def both(self, *conditions: TapeValue) -> TapeValue:
        """Whether all conditions hold."""
        result = self.one
        for condition in conditions:
            if condition != self.one:
                result = (
                    condition if result == self.one else self.program.emit("and", result, condition)
                )
        return result

    def failure(self, gap: TapeValue) -> TapeValue:
        """NaN where a gap is a failure, 0 where it is not, whatever is missing."""
        return gap if gap == self.zero else self.program.emit("mul", gap, self.zero)

    def finite(self, gap: TapeValue, value: TapeValue) -> TapeValue:
        """The gap of a value that is computed from what has a gap: NaN where it is not finite."""
        spread = self.program.emit("sub", value, value)
        return self.total((gap, self.select(self.is_zero(gap), spread, self.zero)))


class _Needs(NamedTuple):
    """What a part of an expression needs: variables, and gaps that depend on a choice."""

    names: frozenset[str] = frozenset()
    chosen: tuple[TapeValue, ...] = ()


def gap_of(
    arithmetic: Arithmetic,
    expression: Expression,
    slots: Mapping[str, Slot],
    value_of_node: Callable[[Expression], TapeValue],
) -> TapeValue:
    """The gap of an expression: of a choice with a known condition, only the branch that it takes counts."""

    def gap(needs: _Needs) -> TapeValue:
        return arithmetic.total((*(slots[name].gap for name in sorted(needs.names)), *needs.chosen))

    needs: dict[int, _Needs] = {}
    for node in postorder(expression):
        if isinstance(node, Symbol):
            is_certain = slots[node.name].gap == arithmetic.zero
            needs[id(node)] = _Needs() if is_certain else _Needs(frozenset((node.name,)))
        elif isinstance(node, Number):
            needs[id(node)] = _Needs()
        else:
            assert isinstance(node, Operation)
            parts = [needs[id(operand)] for operand in node.operands]
            if node.operator != "select":
                needs[id(node)] = _joined(parts)
                continue
            condition, then, otherwise = parts
            first, second = (_without(part, condition) for part in (then, otherwise))
            if first == second:
                needs[id(node)] = _joined((condition, first))
                continue
            taken = arithmetic.select(value_of_node(node.operands[0]), gap(first), gap(second))
            either = arithmetic.total((gap(first), gap(second)))
            known = arithmetic.is_zero(gap(condition))
            choice = taken if known == arithmetic.one else arithmetic.select(known, taken, either)
            needs[id(node)] = _joined((condition, _Needs(chosen=(choice,))))
    return gap(needs[id(expression)])


def _joined(parts: Iterable[_Needs]) -> _Needs:
    names: frozenset[str] = frozenset()
    chosen: dict[TapeValue, None] = {}
    for part in parts:
        names |= part.names
        chosen.update(dict.fromkeys(part.chosen))
    return _Needs(names, tuple(chosen))


def _without(part: _Needs, known: _Needs) -> _Needs:
    return _Needs(
        part.names - known.names, tuple(value for value in part.chosen if value not in known.chosen)
    )
