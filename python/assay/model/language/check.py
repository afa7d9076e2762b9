"""The unit of an expression, inferred from the units its variables are declared in.

Dimension and scale must both agree: `energy [J] = power [W] * time [h]` is refused although
both sides are energies. Inside a relation units must therefore be consistent as written, and
no conversion factor is ever needed; a variable's display unit is a separate matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

from assay.errors import UnitError
from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder
from assay.model.language.operators import OPERATORS, UnitRule
from assay.model.language.units import DIMENSIONLESS, Unit, parse_unit

TRUTH: Final = Unit(DIMENSIONLESS.powers, text="a truth value", offset=Fraction(1))
"""The "unit" of conditions; its offset keeps it unequal to every unit of measurement."""

_ZERO: Final = Unit(DIMENSIONLESS.powers, text="zero", offset=Fraction(2))
"""A literal 0 fits any unit: `maximum(0, a - b)` needs no `0 s`."""


def infer_unit(expression: Expression, units: Mapping[str, Unit]) -> Unit:
    """Return the unit of an expression or raise UnitError naming the two sides that differ."""
    results: dict[int, Unit] = {}
    for node in postorder(expression):
        if isinstance(node, Operation):
            operands = [results[id(operand)] for operand in node.operands]
            results[id(node)] = _RULES[OPERATORS[node.operator].rule](node, operands)
        elif isinstance(node, Symbol):
            results[id(node)] = units[node.name]
        else:
            assert isinstance(node, Number)
            free = node.value == 0.0 and node.unit == DIMENSIONLESS
            results[id(node)] = _ZERO if free else node.unit
    unit = results[id(expression)]
    return DIMENSIONLESS if unit is _ZERO else unit


def require_same(what: str, left: Unit, right: Unit) -> None:
    """Refuse two sides whose dimension or scale differ."""
    if left == right or _ZERO in (left, right):
        return
    if TRUTH in (left, right) or not left.same_dimension(right):
        raise UnitError(f"{what}: left side is {left}, right side is {right}")
    ratio = right.scale / left.scale
    raise UnitError(
        f"{what}: left side is {left}, right side is {right}: same dimension, "
        f"scale differs by a factor of {ratio if ratio > 1 else 1 / ratio}",
        "declare both in one unit and choose another for display",
    )


def _same(node: Operation, operands: list[Unit]) -> Unit:
    # A literal states its own unit and is stored in base units: `power <= 1 kW` is valid for a
    # power in W. It takes the scale of the variable beside it.
    literal = [isinstance(operand, Number) for operand in node.operands[-len(operands) :]]
    fixed = [unit for unit, free in zip(operands, literal, strict=True) if not free]
    first = next((unit for unit in (*fixed, *operands) if unit is not _ZERO), _ZERO)
    for unit, free in zip(operands, literal, strict=True):
        if unit is TRUTH:
            raise UnitError(f'in "{node}": expected a quantity, got a truth value')
        # The text of a large expression is worth writing only when there is something to say.
        if unit != first and unit is not _ZERO and not (free and unit.same_dimension(first)):
            require_same(f'in "{node}"', first, unit)
    return first


def _whole(node: Operation, operands: list[Unit]) -> Unit:
    unit = _same(node, operands)
    if unit is not _ZERO and not unit.is_coherent:
        raise UnitError(
            f'in "{node}": whole numbers of {unit} depend on the unit; expected a coherent unit',
            f"divide by 1 {unit} first",
        )
    return unit


def _measurable(node: Operation, operands: list[Unit]) -> list[Unit]:
    if TRUTH in operands:
        raise UnitError(f'in "{node}": expected a quantity, got a truth value')
    return [DIMENSIONLESS if unit is _ZERO else unit for unit in operands]


def _product(node: Operation, operands: list[Unit]) -> Unit:
    left, right = _measurable(node, operands)
    return left * right


def _quotient(node: Operation, operands: list[Unit]) -> Unit:
    left, right = _measurable(node, operands)
    return left / right


def _root(node: Operation, operands: list[Unit]) -> Unit:
    (unit,) = _measurable(node, operands)
    return unit ** Fraction(1, 2)


def _power(node: Operation, operands: list[Unit]) -> Unit:
    base, exponent = _measurable(node, operands)
    if exponent != DIMENSIONLESS:
        raise UnitError(f'in "{node}": expected a pure number as exponent, got {exponent}')
    if base == DIMENSIONLESS:
        return base
    literal = node.operands[1]
    if isinstance(literal, Operation) and literal.operator == "neg":
        inner = literal.operands[0]
        literal = Number(-inner.value) if isinstance(inner, Number) else literal
    if not isinstance(literal, Number):
        raise UnitError(
            f'in "{node}": {base} cannot be raised to a variable power',
            "divide the base by a unit first",
        )
    exact = Fraction(literal.value).limit_denominator(12)
    if float(exact) != literal.value:
        raise UnitError(
            f'in "{node}": {base} to the power {literal.value:g} is not a unit',
            "divide the base by a unit first",
        )
    return base ** (exact.numerator if exact.denominator == 1 else exact)


def _pure(node: Operation, operands: list[Unit]) -> Unit:
    for unit in _measurable(node, operands):
        if unit != DIMENSIONLESS:
            raise UnitError(
                f'in "{node}": expected a pure number, got {unit}', "divide by a unit first"
            )
    return DIMENSIONLESS


def _comparison(node: Operation, operands: list[Unit]) -> Unit:
    _same(node, operands)
    return TRUTH


def _logic(node: Operation, operands: list[Unit]) -> Unit:
    for unit in operands:
        if unit is not TRUTH:
            raise UnitError(f'in "{node}": expected a truth value, got {unit}')
    return TRUTH


def _choice(node: Operation, operands: list[Unit]) -> Unit:
    condition, then, otherwise = operands
    if condition is not TRUTH:
        raise UnitError(f'in "{node}": expected a truth value as condition, got {condition}')
    return _same(node, [then, otherwise])


_RULES: Final[dict[UnitRule, Callable[[Operation, list[Unit]], Unit]]] = {
    UnitRule.SAME: _same,
    UnitRule.WHOLE: _whole,
    UnitRule.PRODUCT: _product,
    UnitRule.QUOTIENT: _quotient,
    UnitRule.ROOT: _root,
    UnitRule.POWER: _power,
    UnitRule.PURE: _pure,
    UnitRule.COMPARISON: _comparison,
    UnitRule.LOGIC: _logic,
    UnitRule.CHOICE: _choice,
}


def declared_unit(what: str, text: str) -> Unit:
    """Read the unit of a declaration, naming the declaration when it is wrong."""
    try:
        unit = parse_unit(text)
    except UnitError as error:
        raise UnitError(f"{what}: {error.message}", error.hint) from None
    if unit.offset:
        raise UnitError(f"{what}: {unit} has its own zero point", "declare K and display degC")
    return unit
