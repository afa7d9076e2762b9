"""Building tape programs: expressions in, a flat list of instructions out.

Equal subexpressions become one instruction. Values are numbered by the tape as inputs, then
constants, then instructions; since constants turn up along the way, numbers are fixed at the
end and values are referred to by `Value` until then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from assay._native import TAPE_OPS, Tape, TapeBlock
from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder

_POWER_LIMIT = 64
_COMMUTATIVE = frozenset(("add", "mul", "eq", "ne"))


class Value(NamedTuple):
    """A value of the program under construction."""

    place: Literal["input", "constant", "instruction"]
    number: int


class _Instruction(NamedTuple):
    operation: str
    operands: tuple[Value, ...]
    literal: int = 0


class PendingBlock(NamedTuple):
    """A simultaneous block with its own finished inner program."""

    inner: Program
    outputs: tuple[Value, ...]
    start: tuple[Value, ...]
    externals: tuple[Value, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    method: Literal["newton", "fixed_point"]
    tolerance: float
    max_iterations: int


class Program:
    """A program under construction over a fixed number of inputs."""

    def __init__(self, n_inputs: int) -> None:
        """Start an empty program."""
        self.n_inputs = n_inputs
        self.constants: dict[float | tuple[str, float], Value] = {}
        self.instructions: dict[_Instruction, Value] = {}
        self.blocks: list[PendingBlock] = []

    def input(self, index: int) -> Value:
        """The value of an input."""
        return Value("input", index)

    def constant(self, value: float) -> Value:
        """The value of a constant; -0.0 and 0.0 are kept apart."""
        key = value if value != 0.0 else ("zero", str(value).startswith("-"))
        return self.constants.setdefault(key, Value("constant", len(self.constants)))

    def emit(self, operation: str, *operands: Value, literal: int = 0) -> Value:
        """Add an instruction, or find the equal one that is there."""
        if operation in _COMMUTATIVE:
            operands = tuple(sorted(operands))
        instruction = _Instruction(operation, operands, literal)
        return self.instructions.setdefault(
            instruction, Value("instruction", len(self.instructions))
        )

    def expression(self, expression: Expression, value_of: Callable[[str], Value]) -> Value:
        """Lower an expression whose variables are already values of the program."""
        results: dict[int, Value] = {}
        for node in postorder(expression):
            if isinstance(node, Operation):
                results[id(node)] = self._operation(node, [results[id(o)] for o in node.operands])
            elif isinstance(node, Symbol):
                results[id(node)] = value_of(node.name)
            else:
                assert isinstance(node, Number)
                results[id(node)] = self.constant(node.value)
        return results[id(expression)]

    def _operation(self, node: Operation, operands: list[Value]) -> Value:
        if node.operator == "pow" and isinstance(node.operands[1], Number):
            exponent = node.operands[1].value
            if exponent == 0.5:
                return self.emit("sqrt", operands[0])
            if exponent.is_integer() and abs(exponent) <= _POWER_LIMIT:
                return self.emit("powi", operands[0], literal=int(exponent) & 0xFFFFFFFF)
        if node.operator == "select":
            condition, then, otherwise = operands
            return self.emit("select", then, otherwise, condition)
        return self.emit(node.operator, *operands)

    def block(self, block: PendingBlock) -> list[Value]:
        """Add a simultaneous block and return its members' values."""
        solved = self.emit("block", literal=len(self.blocks))
        self.blocks.append(block)
        return [
            self.emit("extract", solved, literal=member) for member in range(len(block.outputs))
        ]

    def finish(self, outputs: Sequence[Value]) -> Tape:
        """Number all values and hand the program to the core."""
        number = self._number
        blocks = [
            TapeBlock(
                constants=block.inner.constant_values(),
                code=block.inner.code(),
                outputs=[block.inner._number(output) for output in block.outputs],
                start=[number(value) for value in block.start],
                externals=[number(value) for value in block.externals],
                lower=block.lower,
                upper=block.upper,
                method=block.method,
                relative_tolerance=block.tolerance,
                max_iterations=block.max_iterations,
            )
            for block in self.blocks
        ]
        return Tape(
            self.n_inputs, self.constant_values(), self.code(), [number(o) for o in outputs], blocks
        )

    def constant_values(self) -> list[float]:
        """The constants in order."""
        return [
            key if isinstance(key, float) else (-0.0 if key[1] else 0.0) for key in self.constants
        ]

    def code(self) -> bytes:
        """The instructions in the core's packed form."""
        words = []
        for operation, operands, literal in self.instructions:
            fields = [self._number(operand) for operand in operands]
            if operation in ("powi", "block", "extract"):
                fields.append(literal)
            words.append(struct.pack("<4I", TAPE_OPS[operation], *fields, *[0] * (3 - len(fields))))
        return b"".join(words)

    def _number(self, value: Value) -> int:
        if value.place == "input":
            return value.number
        if value.place == "constant":
            return self.n_inputs + value.number
        return self.n_inputs + len(self.constants) + value.number
