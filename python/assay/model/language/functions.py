"""Literals and functions of expressions: `number("5 us")`, `minimum`, `where`, `sqrt` and others."""

from __future__ import annotations

import math

from assay.errors import DeclarationError
from assay.model.language.expression import Expression, Number, Operand, Operation, as_expression
from assay.model.language.units import parse_unit


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
    return Operation(
        "select", condition.as_condition(), as_expression(then), as_expression(otherwise)
    )


def equal(a: Operand, b: Operand) -> Expression:
    """Whether both sides are equal; `==` itself compares objects, as everywhere in Python."""
    return _function("eq", a, b)


def different(a: Operand, b: Operand) -> Expression:
    """Whether both sides differ."""
    return _function("ne", a, b)


def at_least(whole: Operand, least: int) -> Expression:
    """Whether a whole number is no less than another, whatever its rounding error.

    >>> from assay.model import Symbol
    >>> print(at_least(Symbol("experts"), 1))
    experts > 0.5
    """
    return as_expression(whole) > least - 0.5


def below(whole: Operand, limit: int) -> Expression:
    """Whether a whole number is less than another, whatever its rounding error."""
    return as_expression(whole) < limit - 0.5


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
