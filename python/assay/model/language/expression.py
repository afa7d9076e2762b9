"""Expressions: a small immutable tree over variables and literals with units.

Trees are built with Python's own operators, so that an equation in code reads like the
equation in the paper:

    >>> bandwidth, size = Symbol("bandwidth"), Symbol("size")
    >>> print(size / bandwidth + number("5 us"))
    size / bandwidth + 5 us
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Union

from assay.errors import DeclarationError
from assay.model.language.operators import OPERATORS, to_sympy
from assay.model.language.units import DIMENSIONLESS, Unit, parse_unit

Operand = Union["Expression", float, int, Fraction]


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
        return Operation("and", self, other)

    def __or__(self, other: Expression) -> Expression:
        return Operation("or", self, other)

    def __invert__(self) -> Expression:
        return Operation("not", self)

    def __bool__(self) -> bool:
        raise DeclarationError(
            f"the expression {self} has no truth value while it is being declared",
            "combine conditions with & | ~, choose with where(condition, a, b)",
        )

    def __str__(self) -> str:
        from assay.model.language.writing import to_text

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


def number(text: str) -> Number:
    """Read a literal with its unit: `number("6 FLOP/token")`."""
    value, _, unit_text = text.strip().partition(" ")
    unit = parse_unit(unit_text)
    try:
        quantity = unit.to_coherent(float(value))
    except ValueError:
        quantity = math.nan
    if not math.isfinite(quantity):
        raise DeclarationError(
            f'malformed literal "{text}": "{value}" is not a finite number',
            'write number("6 FLOP/token")',
        )
    return Number(quantity, unit)


def _function(operator: str, *operands: Operand) -> Expression:
    return Operation(operator, *(as_expression(operand) for operand in operands))


def _fold(operator: str, operands: tuple[Operand, ...]) -> Expression:
    if not operands:
        raise DeclarationError(f"{operator} needs at least one operand, got none")
    result = as_expression(operands[0])
    for operand in operands[1:]:
        result = Operation(operator, result, as_expression(operand))
    return result


def minimum(*operands: Operand) -> Expression:
    """The smallest of its operands."""
    return _fold("minimum", operands)


def maximum(*operands: Operand) -> Expression:
    """The largest of its operands."""
    return _fold("maximum", operands)


def total(*operands: Operand) -> Expression:
    """The sum of its operands."""
    return _fold("add", operands)


def where(condition: Expression, then: Operand, otherwise: Operand) -> Expression:
    """`then` at the points where the condition holds, `otherwise` elsewhere."""
    return Operation("select", condition, as_expression(then), as_expression(otherwise))


def equal(a: Operand, b: Operand) -> Expression:
    """Whether both sides are equal; `==` itself compares objects, as everywhere in Python."""
    return _function("eq", a, b)


def different(a: Operand, b: Operand) -> Expression:
    """Whether both sides differ."""
    return _function("ne", a, b)


def sqrt(a: Operand) -> Expression:
    """Square root."""
    return _function("sqrt", a)


def exp(a: Operand) -> Expression:
    """Natural exponential of a pure number."""
    return _function("exp", a)


def log(a: Operand) -> Expression:
    """Natural logarithm of a pure number."""
    return _function("log", a)


def log2(a: Operand) -> Expression:
    """Logarithm to base two of a pure number."""
    return _function("log2", a)


def log10(a: Operand) -> Expression:
    """Logarithm to base ten of a pure number."""
    return _function("log10", a)


def floor(a: Operand) -> Expression:
    """The largest whole number not above the operand."""
    return _function("floor", a)


def ceil(a: Operand) -> Expression:
    """The smallest whole number not below the operand."""
    return _function("ceil", a)


def tanh(a: Operand) -> Expression:
    """Hyperbolic tangent of a pure number."""
    return _function("tanh", a)


def sin(a: Operand) -> Expression:
    """Sine of an angle in radians."""
    return _function("sin", a)


def cos(a: Operand) -> Expression:
    """Cosine of an angle in radians."""
    return _function("cos", a)


def tan(a: Operand) -> Expression:
    """Tangent of an angle in radians."""
    return _function("tan", a)


def atan(a: Operand) -> Expression:
    """The angle in radians whose tangent is the operand."""
    return _function("atan", a)


def erf(a: Operand) -> Expression:
    """The error function of a pure number."""
    return _function("erf", a)


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


def encode(expression: Expression) -> str:
    """The expression as JSON text: one entry per node, operands before operations.

    An entry is a number, `{"value", "unit"}`, a name, or an operation followed by the positions
    of its operands. Flat, so that neither depth nor sharing costs anything; and text, so that
    a registry is read without looking into expressions that nobody asks for.
    """
    entries: list[Any] = []
    positions: dict[int, int] = {}
    for node in postorder(expression):
        positions[id(node)] = len(entries)
        if isinstance(node, Operation):
            entries.append([node.operator, *(positions[id(o)] for o in node.operands)])
        elif isinstance(node, Symbol):
            entries.append(node.name)
        else:
            assert isinstance(node, Number)
            plain = node.unit.text == "1"
            entries.append(node.value if plain else {"value": node.value, "unit": node.unit.text})
    return json.dumps(entries, separators=(",", ":"))


def decode(text: str) -> Expression:
    """Read back what `encode` wrote."""
    nodes: list[Expression] = []
    for entry in json.loads(text):
        if isinstance(entry, str):
            nodes.append(Symbol(entry))
        elif isinstance(entry, list):
            nodes.append(Operation(entry[0], *(nodes[position] for position in entry[1:])))
        elif isinstance(entry, dict):
            nodes.append(Number(entry["value"], parse_unit(entry["unit"])))
        else:
            nodes.append(Number(entry))
    return nodes[-1]
