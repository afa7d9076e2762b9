"""Simultaneous blocks: variables that define each other, solved by tearing and Newton.

The tear variables are iterated; the other members follow from them in order, and the tears'
definitions give the residual. The tape solves for the tears with an exact Jacobian.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

from assay.errors import ConvergenceError, UnsupportedError
from assay.model.language.dynamics import Iterative
from assay.model.language.relations import Relation
from assay.model.tapes.program import PendingBlock, TapeProgram, TapeValue

if TYPE_CHECKING:
    from assay.model.declarations import Declarations, SimultaneousBlock

_EXHAUSTIVE = 12
TOLERANCE = 1e-12
MAX_ITERATIONS = 200


def solve_block(
    registry: Declarations,
    block: SimultaneousBlock,
    relations: Mapping[str, Relation],
    values: Mapping[str, float],
) -> dict[str, float]:
    """Solve a block at one point, trying several starts before giving up."""
    outside = list(values)
    program = TapeProgram(len(outside) + len(relations))
    position = {name: program.input(index) for index, name in enumerate(outside)}
    tears = find_tears(relations)
    start = [program.input(len(outside) + index) for index in range(len(tears))]
    members = lower_block(program, registry, block, relations, position.__getitem__, start)
    tape = program.finish([members[name] for name in relations])
    out = array("d", [0.0] * len(relations))
    table = memoryview(out).cast("B").cast("d", (len(relations), 1))
    unused = [0.0] * (len(relations) - len(tears))
    for guess in starts(registry, block, tears):
        report = tape.evaluate([*values.values(), *guess, *unused], 1, table)
        if not report.unconverged and all(map(math.isfinite, out)):
            return dict(zip(relations, out, strict=True))
    raise ConvergenceError(
        f"simultaneous block {block.name} does not converge: {', '.join(relations)}",
        "check the inputs, or declare a start value",
    )


def lower_block(
    program: TapeProgram,
    registry: Declarations,
    block: SimultaneousBlock,
    relations: Mapping[str, Relation],
    value_of: Callable[[str], TapeValue],
    start: Sequence[TapeValue],
) -> dict[str, TapeValue]:
    """Add a block to a program; returns the value of each member."""
    for relation in relations.values():
        if relation.expression is None:
            raise UnsupportedError(
                f"{relation.kind} relation {relation.name} cannot be part of the simultaneous block {block.name}"
            )
    tears = find_tears(relations)
    rest = [name for name in member_order(relations, tears) or () if name not in tears]
    if not tears:
        return _lower_acyclic(program, relations, rest, value_of)
    outside = list(
        dict.fromkeys(
            n for relation in relations.values() for n in relation.inputs if n not in relations
        )
    )
    inner = TapeProgram(len(tears) + len(outside))
    known = {name: inner.input(index) for index, name in enumerate([*tears, *outside])}
    for name in rest:
        known[name] = _lower_inner(inner, relations[name], known)
    updated = [_lower_inner(inner, relations[name], known) for name in tears]
    bounds = [registry.variables[name] for name in tears]
    values = program.block(
        PendingBlock(
            inner=inner,
            outputs=(*updated, *(known[name] for name in rest)),
            start=tuple(start[: len(tears)]),
            externals=tuple(value_of(name) for name in outside),
            lower=tuple(variable.lower for variable in bounds),
            upper=tuple(variable.upper for variable in bounds),
            method="newton",
            tolerance=TOLERANCE,
            max_iterations=MAX_ITERATIONS,
        )
    )
    return dict(zip([*tears, *rest], values, strict=True))


def _lower_acyclic(
    program: TapeProgram,
    relations: Mapping[str, Relation],
    order: Sequence[str],
    value_of: Callable[[str], TapeValue],
) -> dict[str, TapeValue]:
    """Lower a block without a cycle, because a member is given: members follow in order."""
    values: dict[str, TapeValue] = {}
    for name in order:
        expression = relations[name].expression
        assert expression is not None
        values[name] = program.expression(
            expression, lambda needed: values[needed] if needed in values else value_of(needed)
        )
    return values


def lower_iterative(
    program: TapeProgram,
    relation: Iterative,
    variable_bounds: tuple[float, float],
    value_of: Callable[[str], TapeValue],
) -> TapeValue:
    """Add an iterated relation to a program as a block of one unknown."""
    inner = TapeProgram(1 + len(relation.inputs))
    known = {
        name: inner.input(index) for index, name in enumerate([relation.variable, *relation.inputs])
    }
    updated = inner.expression(relation.part("update"), known.__getitem__)
    start = program.expression(relation.part("start"), value_of)
    (value,) = program.block(
        PendingBlock(
            inner=inner,
            outputs=(updated,),
            start=(start,),
            externals=tuple(value_of(name) for name in relation.inputs),
            lower=(variable_bounds[0],),
            upper=(variable_bounds[1],),
            method="fixed_point",
            tolerance=relation.options["tolerance"],
            max_iterations=relation.options["max_iterations"],
        )
    )
    return value


def _lower_inner(
    inner: TapeProgram, relation: Relation, known: Mapping[str, TapeValue]
) -> TapeValue:
    expression = relation.expression
    assert expression is not None
    return inner.expression(expression, known.__getitem__)


class HasInputs(Protocol):
    """A relation, or what stands for several."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the variables that it refers to."""


def find_tears(relations: Mapping[str, HasInputs]) -> list[str]:
    """A minimum set of members that breaks all cycles; a small one, by a heuristic, in large blocks."""
    names = list(relations)
    if len(names) <= _EXHAUSTIVE:
        for size in range(len(names) + 1):
            for chosen in combinations(names, size):
                if member_order(relations, chosen) is not None:
                    return list(chosen)
    tears: list[str] = []
    while member_order(relations, tears) is None:
        inside = {
            name: [n for n in relations[name].inputs if n in relations and n not in tears]
            for name in names
        }
        uses = {
            name: sum(name in needs for needs in inside.values())
            for name in names
            if name not in tears
        }
        tears.append(max(uses, key=lambda name: uses[name] * (1 + len(inside[name]))))
    return tears


def member_order(relations: Mapping[str, HasInputs], tears: Sequence[str]) -> list[str] | None:
    """Topological order of the members given the tears; None where a cycle remains."""
    ready: list[str] = list(tears)
    left = [name for name in relations if name not in tears]
    while left:
        free = [
            n for n in left if all(i not in relations or i in ready for i in relations[n].inputs)
        ]
        if not free:
            return None
        ready.extend(free)
        left = [name for name in left if name not in free]
    return ready


def starts(
    registry: Declarations, block: SimultaneousBlock, tears: Sequence[str]
) -> Iterator[list[float]]:
    """Initial guesses for the tears: the declared ones, then wider ones within bounds."""
    variables = [registry.variables[name] for name in tears]
    if all(name in block.starts for name in tears):
        yield [block.starts[name] for name in tears]
    for factor in (1.0, 10.0, 0.1, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e12, 1e15):
        guess = []
        for variable in variables:
            base = block.starts.get(variable.name, 1.0)
            if math.isfinite(variable.lower) and math.isfinite(variable.upper):
                share = factor / (1.0 + factor)
                guess.append(variable.lower + share * (variable.upper - variable.lower))
            else:
                guess.append(min(max(base * factor, variable.lower), variable.upper))
        yield guess
