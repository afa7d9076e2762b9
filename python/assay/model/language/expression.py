"""Expressions: a small immutable tree over variables and literals with units.

Trees are built with Python's own operators, so that an equation in code reads like the
equation in the paper:

    >>> bandwidth, size = Symbol("bandwidth"), Symbol("size")
    >>> print(size / bandwidth + 1)
    size / bandwidth + 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, Union

from assay.errors import DeclarationError
from assay.model.language.operators import OPERATORS, to_sympy
from assay.model.language.units import DIMENSIONLESS, Unit

Operand = Union["Expression", float, int, Fraction]

MOST_NODES: Final = 120
"""Nodes, repeated ones counted each time, that an expression's text writes out in full.

A tree may share branches. Written out in full, a large one repeats them over and over: a thousand
nodes become a million characters. Beyond this size shared branches are written once and named.
"""
_LEAST_NODES_SHARED: Final = 3
"""A shared branch with fewer nodes is repeated instead of named."""


class Expression:
    """A node of the tree; every subclass is immutable."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Expression:
        return Operation("add", self, as_expression(other))

    def __radd__(self, other: Operand) -> Expression:
        return Operation("add", as_expression(other), self)

    def __sub__(self, other: Operand) -> Expression:
        return Operation("sub", self, as_expression(other))

    def __rsub__(self, other: Operand) -> Expression:
        return Operation("sub", as_expression(other), self)

    def __mul__(self, other: Operand) -> Expression:
        return Operation("mul", self, as_expression(other))

    def __rmul__(self, other: Operand) -> Expression:
        return Operation("mul", as_expression(other), self)

    def __truediv__(self, other: Operand) -> Expression:
        return Operation("div", self, as_expression(other))

    def __rtruediv__(self, other: Operand) -> Expression:
        return Operation("div", as_expression(other), self)

    def __mod__(self, other: Operand) -> Expression:
        return Operation("modulo", self, as_expression(other))

    def __pow__(self, other: Operand) -> Expression:
        return Operation("pow", self, as_expression(other))

    def __rpow__(self, other: Operand) -> Expression:
        return Operation("pow", as_expression(other), self)

    def __neg__(self) -> Expression:
        return Operation("neg", self)

    def __abs__(self) -> Expression:
        return Operation("abs", self)

    def __lt__(self, other: Operand) -> Expression:
        return Operation("lt", self, as_expression(other))

    def __le__(self, other: Operand) -> Expression:
        return Operation("le", self, as_expression(other))

    def __gt__(self, other: Operand) -> Expression:
        return Operation("gt", self, as_expression(other))

    def __ge__(self, other: Operand) -> Expression:
        return Operation("ge", self, as_expression(other))

    def __and__(self, other: Expression) -> Expression:
        return Operation("and", self.as_condition(), other.as_condition())

    def __or__(self, other: Expression) -> Expression:
        return Operation("or", self.as_condition(), other.as_condition())

    def __invert__(self) -> Expression:
        return Operation("not", self)

    def as_condition(self) -> Expression:
        """The expression where a condition is expected."""
        return self

    def __bool__(self) -> bool:
        raise DeclarationError(
            f"the expression {self} has no truth value while it is being declared",
            "combine conditions with & | ~, choose with where(condition, a, b)",
        )

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<{self}>"


class Number(Expression):
    """A literal: a value in base units, and the unit it was written in."""

    __slots__ = ("unit", "value")

    def __init__(self, value: float, unit: Unit = DIMENSIONLESS) -> None:
        """Take the value in base units; `number("6 FLOP/token")` converts."""
        self.value = float(value)
        self.unit = unit


class Symbol(Expression):
    """A reference to a variable by its full name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        """Refer to the variable called `name`."""
        self.name = name


class Operation(Expression):
    """An operation of the table in `assay.model.language.operators` applied to operands."""

    __slots__ = ("operands", "operator")

    def __init__(self, operator: str, *operands: Expression) -> None:
        """Apply the operation called `operator`."""
        self.operator = operator
        self.operands = operands


def as_expression(value: Operand) -> Expression:
    """Wrap a plain number; expressions pass through."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, (int, float, Fraction)) and math.isfinite(value):
        return Number(float(value))
    raise DeclarationError(f"expected an expression or a finite number, got {value!r}")


def postorder(expression: Expression) -> list[Expression]:
    """All nodes, operands before operations, shared nodes once; no recursion, any depth."""
    order: list[Expression] = []
    seen: set[int] = set()
    stack: list[tuple[Expression, bool]] = [(expression, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if isinstance(node, Operation):
                stack.extend((operand, False) for operand in reversed(node.operands))
    return order


def variables_of(expression: Expression) -> tuple[str, ...]:
    """Names of the variables in the order in which they first appear."""
    return tuple(
        dict.fromkeys(node.name for node in postorder(expression) if isinstance(node, Symbol))
    )


def evaluate(expression: Expression, values: Mapping[str, float]) -> float:
    """Compute the value at a point; values are in base units.

    >>> evaluate(Symbol("a") / Symbol("b"), {"a": 1.0, "b": 4.0})
    0.25
    """
    return evaluate_nodes(expression, values)[id(expression)]


def evaluate_nodes(expression: Expression, values: Mapping[str, float]) -> dict[int, float]:
    """Compute the value of every node, keyed by the node's identity."""
    results: dict[int, float] = {}
    for node in postorder(expression):
        if isinstance(node, Operation):
            operands = [results[id(operand)] for operand in node.operands]
            results[id(node)] = OPERATORS[node.operator].evaluate(*operands)
        elif isinstance(node, Symbol):
            results[id(node)] = values[node.name]
        else:
            assert isinstance(node, Number)
            results[id(node)] = node.value
    return results


def substitute(expression: Expression, replacements: Mapping[str, Expression]) -> Expression:
    """Replace variables by expressions."""
    results: dict[int, Expression] = {}
    for node in postorder(expression):
        if isinstance(node, Operation):
            results[id(node)] = Operation(node.operator, *(results[id(o)] for o in node.operands))
        elif isinstance(node, Symbol):
            results[id(node)] = replacements.get(node.name, node)
        else:
            results[id(node)] = node
    return results[id(expression)]


def as_sympy(expression: Expression) -> Any:
    """The same expression in SymPy, variables as symbols named in full, in base units."""
    import sympy

    results: dict[int, Any] = {}
    for node in postorder(expression):
        if isinstance(node, Operation):
            results[id(node)] = to_sympy(node.operator, [results[id(o)] for o in node.operands])
        elif isinstance(node, Symbol):
            results[id(node)] = sympy.Symbol(node.name, real=True)
        else:
            assert isinstance(node, Number)
            value = node.value
            results[id(node)] = (
                sympy.Integer(int(value)) if value.is_integer() else sympy.Float(value, 17)
            )
    return results[id(expression)]


def shared_parts(expression: Expression) -> dict[int, str]:
    """Names for the parts that occur more than once; none for an expression of modest size.

    Keyed by `id`, in the order in which each can be written from those before it.
    """
    return _shared_parts(postorder(expression))


def _shared_parts(order: list[Expression]) -> dict[int, str]:
    sizes: dict[int, int] = {}
    uses: dict[int, int] = {}
    for node in order:
        operands = node.operands if isinstance(node, Operation) else ()
        sizes[id(node)] = 1 + sum(sizes[id(operand)] for operand in operands)
        for operand in operands:
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    if sizes[id(order[-1])] <= MOST_NODES:
        return {}
    shared = [n for n in order if uses.get(id(n), 0) > 1 and sizes[id(n)] >= _LEAST_NODES_SHARED]
    return {id(node): f"#{position}" for position, node in enumerate(shared, 1)}


def to_text(expression: Expression) -> str:
    """The expression as a line of text that reads like its declaration.

    >>> print(Symbol("a") / (Symbol("b") + 1))
    a / (b + 1)
    """
    order = postorder(expression)
    names = _shared_parts(order)
    results: dict[int, tuple[str, int]] = {}
    written: list[str] = []
    for node in order:
        if isinstance(node, Operation):
            operator = OPERATORS[node.operator]
            parts = []
            for position, operand in enumerate(node.operands):
                text, precedence = results[id(operand)]
                # Infix operators group to the left, and towers of powers read either way: an
                # operand of equal rank keeps its parentheses where grouping matters.
                loose = node.operator in ("add", "mul", "and", "or") and not (
                    isinstance(operand, Operation) and operand.operator == "modulo"
                )
                grouped = node.operator == "pow" or (position > 0 and not loose)
                if operator.precedence < 100 and (
                    precedence < operator.precedence
                    or (grouped and precedence == operator.precedence)
                ):
                    text = f"({text})"
                parts.append(text)
            results[id(node)] = (operator.form.format(*parts), operator.precedence)
        elif isinstance(node, Symbol):
            results[id(node)] = (node.name, 100)
        else:
            assert isinstance(node, Number)
            results[id(node)] = _number_text(node)
        if id(node) in names:
            written.append(f"{names[id(node)]} = {results[id(node)][0]}")
            results[id(node)] = (names[id(node)], 100)
    text = results[id(expression)][0]
    return f"{text}, where {', '.join(written)}" if written else text


def _number_text(node: Number) -> tuple[str, int]:
    value = node.unit.from_coherent(node.value)
    text = f"{value:.12g}"
    if node.unit.text != "1":
        text += f" {node.unit.text}"
    simple = node.unit.text == "1" and value >= 0
    return text, 100 if simple else 65
