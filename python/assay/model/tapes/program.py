"""Lowering expressions to tape programs: flat lists of instructions.

Common subexpressions become one instruction. The tape numbers values as inputs, then constants,
then instructions; constants are added while lowering, so values are `TapeValue` until `finish`
numbers them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from assay._native import TAPE_OPS, Tape, TapeBlock
from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder

_POWER_LIMIT = 64
_COMMUTATIVE = frozenset(("add", "mul", "eq", "ne"))


class TapeValue(NamedTuple):
    """A value of the program under construction."""

    kind: Literal["input", "constant", "instruction"]
    number: int


class _Instruction(NamedTuple):
    operation: str
    operands: tuple[TapeValue, ...]
    literal: int = 0


class PendingBlock(NamedTuple):
    """A simultaneous block with its own finished inner program."""

    inner: TapeProgram
    outputs: tuple[TapeValue, ...]
    start: tuple[TapeValue, ...]
    externals: tuple[TapeValue, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    method: Literal["newton", "fixed_point"]
    tolerance: float
    max_iterations: int


class TapeProgram:
    """A program under construction over a fixed number of inputs."""

    def __init__(self, n_inputs: int) -> None:
        """Start an empty program."""
        self.n_inputs = n_inputs
        self.constants: dict[float | tuple[str, float], TapeValue] = {}
        self.instructions: dict[_Instruction, TapeValue] = {}
        self.blocks: list[PendingBlock] = []

    def input(self, index: int) -> TapeValue:
        """The value of an input."""
        return TapeValue("input", index)

    def constant(self, value: float) -> TapeValue:
        """The value of a constant; -0.0 and 0.0 are distinct."""
        key = value if value != 0.0 else ("zero", str(value).startswith("-"))
        return self.constants.setdefault(key, TapeValue("constant", len(self.constants)))

    def emit(self, operation: str, *operands: TapeValue, literal: int = 0) -> TapeValue:
        """Add an instruction, or return the existing equal one."""
        if operation in _COMMUTATIVE:
            operands = tuple(sorted(operands))
        instruction = _Instruction(operation, operands, literal)
        return self.instructions.setdefault(
            instruction, TapeValue("instruction", len(self.instructions))
        )

    def expression(
        self,
        expression: Expression,
        value_of: Callable[[str], TapeValue],
        results: dict[int, TapeValue] | None = None,
    ) -> TapeValue:
        """Lower an expression whose variables are already values of the program.

        `results` receives the value of every node, by the node's id.
        """
        results = {} if results is None else results
        for node in postorder(expression):
            if isinstance(node, Operation):
                results[id(node)] = self._operation(node, [results[id(o)] for o in node.operands])
            elif isinstance(node, Symbol):
                results[id(node)] = value_of(node.name)
            else:
                assert isinstance(node, Number)
                results[id(node)] = self.constant(node.value)
        return results[id(expression)]

    def _operation(self, node: Operation, operands: list[TapeValue]) -> TapeValue:
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

    def block(self, block: PendingBlock) -> list[TapeValue]:
        """Add a simultaneous block and return its members' values."""
        solved = self.emit("block", literal=len(self.blocks))
        self.blocks.append(block)
        return [
            self.emit("extract", solved, literal=member) for member in range(len(block.outputs))
        ]

    def finish(self, outputs: Sequence[TapeValue]) -> Tape:
        """Number all values and build the native tape."""
        number = self.number
        blocks = [
            TapeBlock(
                constants=block.inner.constant_values(),
                code=block.inner.code(),
                outputs=[block.inner.number(output) for output in block.outputs],
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
        """The instructions in the packed form of the native tape."""
        words = []
        for operation, operands, literal in self.instructions:
            fields = [self.number(operand) for operand in operands]
            if operation in ("powi", "block", "extract"):
                fields.append(literal)
            words.append(struct.pack("<4I", TAPE_OPS[operation], *fields, *[0] * (3 - len(fields))))
        return b"".join(words)

    def number(self, value: TapeValue) -> int:
        """The position of a value among inputs, constants and instructions."""
        if value.kind == "input":
            return value.number
        if value.kind == "constant":
            return self.n_inputs + value.number
        return self.n_inputs + len(self.constants) + value.number
