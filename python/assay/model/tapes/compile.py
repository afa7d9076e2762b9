"""Compile: the cone of some outputs as one vectorized callable with exact derivatives."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay._native import Tape
from assay.array_types import Floats
from assay.errors import ConvergenceError, InputError, MissingInputsError, UnsupportedError
from assay.model import store
from assay.model.dependency_walk import Walk, walk
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.conditions import certain, possible
from assay.model.language.dynamics import Differential, Iterative, Stochastic
from assay.model.language.encoding import encode
from assay.model.language.expression import Expression, variables_of
from assay.model.language.relations import Relation
from assay.model.selection import candidates, check_variants, combined
from assay.model.tapes.blocks import find_tears, lower_block, lower_iterative, starts
from assay.model.tapes.program import TapeProgram, TapeValue

if TYPE_CHECKING:
    from assay.model.declarations import Declarations, SimultaneousBlock


class Compiled:
    """A cone lowered to a tape. Everything in and out is in base units.

    Called with one value or array per input, in the order of `inputs` or by name; returns an
    array of one row per output and one column per point, or one number per output when all
    inputs are numbers.
    """

    def __init__(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], fixed: Mapping[str, float]
    ) -> None:
        """Wrap a tape whose inputs are `inputs`, then the keys of `fixed`."""
        self.tape = tape
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.fixed = dict(fixed)
        self._places = {name: place for place, name in enumerate(self.inputs)}

    def __call__(self, *positional: Any, **named: Any) -> Floats:
        """Evaluate all outputs at all points."""
        import numpy as np

        columns, points = self._columns(positional, named)
        scalar = points is None
        out = np.empty((len(self.outputs), 1 if points is None else points))
        report = self.tape.evaluate(columns, out.shape[1], out.data)
        if scalar and report.unconverged:
            raise ConvergenceError(
                f"the compiled cone of {', '.join(self.outputs)} has a simultaneous block that does not converge here"
            )
        return out[:, 0] if scalar else out

    def jacobian(self, *positional: Any, wrt: Sequence[str] | None = None, **named: Any) -> Floats:
        """Derivatives of all outputs by the inputs in `wrt` (all by default).

        An array of outputs by inputs at one point, of outputs by inputs by points at several.
        """
        import numpy as np

        columns, points = self._columns(positional, named)
        numbers = [self._position(name) for name in (self.inputs if wrt is None else wrt)]
        out = np.empty((len(self.outputs), len(numbers), 1 if points is None else points))
        self.tape.jacobian(columns, out.shape[2], numbers, out.data)
        return out[:, :, 0] if points is None else out

    def _position(self, name: str) -> int:
        if name not in self._places:
            raise InputError(
                f"{name} is not an input of this compiled cone", f"inputs: {', '.join(self.inputs)}"
            )
        return self._places[name]

    def _columns(
        self, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[list[Any], int | None]:
        import numpy as np

        if len(positional) == 1 and isinstance(positional[0], Mapping):
            named, positional = {**positional[0], **named}, ()
        values = dict(zip(self.inputs, positional, strict=False))
        if len(positional) > len(self.inputs) or any(name in values for name in named):
            raise InputError(f"expected one value for each of {len(self.inputs)} inputs, got more")
        values.update(named)
        for name in values:
            self._position(name)
        if absent := [name for name in self.inputs if name not in values]:
            raise MissingInputsError(f"no value for {', '.join(absent)}", absent)
        columns: list[Any] = []
        points: int | None = None
        for name in self.inputs:
            value = values[name]
            if isinstance(value, (int, float)):
                columns.append(float(value))
                continue
            try:
                column = np.ascontiguousarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(f"{name}: expected numbers in base units, got {value!r}") from None
            if column.ndim == 0:
                columns.append(float(column))
                continue
            if column.ndim != 1 or (points is not None and column.shape[0] != points):
                raise InputError(
                    f"{name}: expected a vector of {points if points is not None else 'any number of'} points, "
                    f"got shape {column.shape}"
                )
            points = column.shape[0]
            columns.append(column)
        return [*columns, *self.fixed.values()], points


def compile_cone(
    registry: Declarations,
    inputs: Sequence[str],
    outputs: Sequence[str],
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
    conditions: Mapping[str, Expression] | None = None,
) -> Compiled:
    """Lower the cone of `outputs`; given values stay fixed, `inputs` vary.

    `conditions` adds outputs that are expressions over variables, under names of their own.
    """
    extra = dict(conditions or {})
    for name in (*inputs, *outputs):
        registry.variable(name)
    check_variants(registry, variants)
    if repeated := [name for name in inputs if list(inputs).count(name) > 1]:
        raise InputError(f"{repeated[0]} is listed as an input twice")
    fixed = {n: v for n, v in read_inputs(registry, given).values.items() if n not in inputs}
    names = [*outputs, *extra]

    def lower() -> Tape:
        return Lowering(registry, [*inputs, *fixed], variants, switch=switch).tape(outputs, extra)

    key = store.fingerprint(
        registry.key,
        list(inputs),
        names,
        [encode(e) for e in extra.values()],
        list(fixed),
        sorted(variants.items()),
        switch,
    )
    return Compiled(store.cached_tape(key, lower), inputs, names, fixed)


class Lowering:
    """Lowers variables to values of a program, each once."""

    def __init__(
        self,
        registry: Declarations,
        inputs: Sequence[str],
        variants: Mapping[str, str],
        *,
        switch: bool = True,
    ) -> None:
        """Start a program whose inputs are the named variables."""
        self.registry = registry
        self.variants = variants
        self.switch = switch
        self.program = TapeProgram(len(inputs))
        self.inputs = {name: self.program.input(index) for index, name in enumerate(inputs)}
        self.values: dict[str, TapeValue] = {}
        self.reachable: dict[str, bool] = {}

    def tape(self, outputs: Sequence[str], conditions: Mapping[str, Expression]) -> Tape:
        """Lower all outputs and conditions and finish the program."""
        needed = [*outputs, *(n for c in conditions.values() for n in variables_of(c))]
        if missing := self.missing_inputs(needed):
            raise MissingInputsError(
                f"{', '.join(outputs)} cannot be compiled without {len(missing)} more inputs: "
                + ", ".join(missing),
                missing,
                "list them as inputs or give them values",
            )
        values = [self.value(name) for name in outputs]
        values += [self.program.expression(c, self.value) for c in conditions.values()]
        return self.program.finish(values)

    def value(self, name: str) -> TapeValue:
        """The program's value for a variable."""
        return walk(name, self._walk, self.values)

    def missing_inputs(self, names: Sequence[str]) -> list[str]:
        """Roots below the names that are neither inputs nor constants."""
        missing: dict[str, None] = {}
        seen: set[str] = set()
        stack = list(reversed(names))
        while stack:
            name = stack.pop()
            if name in seen or name in self.inputs or name in self.registry.constants:
                continue
            seen.add(name)
            variable = self.registry.variable(name)
            if variable.is_given(self.variants):
                missing[name] = None
            else:
                stack.extend(reversed(candidates(variable, self.variants)[0].inputs))
        return list(missing)

    def _walk(self, name: str) -> Walk[TapeValue]:
        if name in self.inputs:
            return self.inputs[name]
        if name in self.registry.constants:
            return self.program.constant(self.registry.constants[name].value)
        block = self.registry.block_of.get(name)
        if block is not None:
            return (yield from self._walk_block(name, block))
        choices = candidates(self.registry.variables[name], self.variants)
        first = yield from self._relation(choices[0])
        if not self.switch or len(choices) == 1 or not self._known(choices[0], "valid"):
            return first
        return (yield from self._choice(choices, first))

    def _choice(self, choices: list[Relation], first: TapeValue) -> Walk[TapeValue]:
        """Pick per point the first valid relation, as resolving would; the first one if none is."""
        alternatives: list[tuple[TapeValue | None, TapeValue]] = []
        for relation in choices[1:]:
            if not self._known(relation, "valid") or self.missing_inputs(relation.inputs):
                continue
            value = yield from self._relation(relation)
            condition = relation.validity
            if condition is None:
                alternatives.append((None, value))
                break
            alternatives.append(((yield from self._condition(certain(condition))), value))
        chosen = first
        for valid, value in reversed(alternatives):
            chosen = value if valid is None else self.program.emit("select", value, chosen, valid)
        condition = choices[0].validity
        assert condition is not None
        valid_first = yield from self._condition(possible(condition))
        return self.program.emit("select", first, chosen, valid_first)

    def _known(self, relation: Relation, part: str) -> bool:
        return not self.missing_inputs(relation.part_variables(part))

    def _condition(self, condition: Expression) -> Walk[TapeValue]:
        known = yield from self._collect(variables_of(condition))
        return self.program.expression(condition, known.__getitem__)

    def _collect(self, names: Sequence[str]) -> Generator[str, TapeValue, dict[str, TapeValue]]:
        values: dict[str, TapeValue] = {}
        done = self.values
        for name in names:
            values[name] = done[name] if name in done else (yield name)
        return values

    def _relation(self, relation: Relation) -> Walk[TapeValue]:
        if isinstance(relation, (Differential, Stochastic)):
            raise UnsupportedError(
                f"{relation.kind} relation {relation.name} cannot be compiled to a tape",
                f"give {relation.variable} a value, or resolve instead",
            )
        known = yield from self._collect(relation.inputs)
        if isinstance(relation, Iterative):
            variable = self.registry.variables[relation.variable]
            bounds = (variable.lower, variable.upper)
            return lower_iterative(self.program, relation, bounds, known.__getitem__)
        expression = relation.expression
        assert expression is not None
        return self.program.expression(expression, known.__getitem__)

    def _walk_block(self, name: str, block: SimultaneousBlock) -> Walk[TapeValue]:
        members = [member for member in block.members if member not in self.inputs]
        relations = {member: combined(self._usable(member)) for member in members}
        outside = [
            n for relation in relations.values() for n in relation.inputs if n not in relations
        ]
        known = yield from self._collect(outside)
        start = self._starts(block, find_tears(relations))
        values = lower_block(
            self.program, self.registry, block, relations, known.__getitem__, start
        )
        for member, value in values.items():
            if member != name:
                self.values[member] = value
        return values[name]

    def _starts(self, block: SimultaneousBlock, tears: Sequence[str]) -> list[TapeValue]:
        """Where the solution of a block starts."""
        first = next(starts(self.registry, block, tears))
        return [self.program.constant(value) for value in first]

    def _usable(self, name: str) -> list[Relation]:
        """Relations of a block's member that can be switched between with what is known."""
        first, *others = candidates(self.registry.variables[name], self.variants)
        if not self.switch or not self._known(first, "valid"):
            return [first]
        return [
            first,
            *(r for r in others if self._known(r, "valid") and not self.missing_inputs(r.inputs)),
        ]
