"""Three-valued conditions: comparisons with NaN are neither true nor false.

`certain` holds where a condition is true, `possible` where it is not false. A NaN neither makes an
approximation invalid nor a constraint fulfilled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assay.model.language.expression import Expression, Operation, evaluate

_OPPOSITE: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def certain(condition: Expression) -> Expression:
    """A condition that holds where the given one is true."""
    return _bounded(condition, may=False)


def possible(condition: Expression) -> Expression:
    """A condition that holds where the given one is not false: true, or without an answer."""
    return _bounded(condition, may=True)


def verdict(condition: Expression, values: Mapping[str, float]) -> bool | None:
    """Whether a condition holds at a point; None where an operand is NaN."""
    if evaluate(certain(condition), values):
        return True
    return None if evaluate(possible(condition), values) else False


def _bounded(condition: Expression, *, may: bool) -> Expression:
    if not isinstance(condition, Operation):
        return condition
    operator, operands = condition.operator, condition.operands
    if operator == "not":
        return ~_bounded(operands[0], may=not may)
    if operator in ("and", "or"):
        return Operation(operator, *(_bounded(operand, may=may) for operand in operands))
    if operator in _OPPOSITE:
        # Every comparison with what is not a number fails, its opposite too.
        return ~Operation(_OPPOSITE[operator], *operands) if may else condition
    if operator in ("eq", "ne"):
        apart = Operation("lt", *operands) | Operation("gt", *operands)
        if operator == "eq":
            return ~apart if may else condition
        return condition if may else apart
    return condition
