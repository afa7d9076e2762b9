"""Derivatives by finite differences, with bounds on their rounding error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from assay.model.language.expression import Expression, Operation, evaluate_nodes, postorder
from assay.model.language.operators import OPERATORS
from assay.model.tapes.compile import Compiled

_STEP = 1e-4
_FINE_STEP = 1e-7
"""For expressions with floor, ceil or modulo: a step that crosses many jumps looks like a slope."""
_DISCONTINUOUS = ("floor", "ceil", "modulo")
_SHIFTS = (-1.0, -0.5, 0.5, 1.0)
_SMOOTH = 1e-3
"""Relative change between two step sizes beyond which a difference quotient is discarded."""
_EPSILON = 2.0**-52
_NUDGE = 1e-6
"""Relative step for the slope of one operation; an error bound need not be exact."""
_SMALLEST = 1e-290
"""Size below which a step would vanish."""


def difference_quotients(
    compiled: Compiled, expression: Expression, point: Mapping[str, float], names: Sequence[str]
) -> list[tuple[float, float | None]]:
    """Derivatives of a relation by central differences, with bounds on their rounding error.

    Two step sizes are combined by Richardson extrapolation; where they disagree, at a kink, a jump
    or the edge of the domain, the bound is None. The tape evaluates all points in one call.
    """
    order = postorder(expression)
    jumps = any(isinstance(node, Operation) and node.operator in _DISCONTINUOUS for node in order)
    steps = [(_FINE_STEP if jumps else _STEP) * abs(point[name]) for name in names]
    width = len(_SHIFTS)
    columns = {key: [value] * (width * len(names)) for key, value in point.items()}
    for row, (name, step) in enumerate(zip(names, steps, strict=True)):
        for column, shift in enumerate(_SHIFTS):
            columns[name][width * row + column] += shift * step
    values = compiled(columns)[0].tolist()
    rounding = rounding_error(expression, point)
    return [
        _richardson(values[width * row : width * (row + 1)], step, rounding)
        for row, step in enumerate(steps)
    ]


def _richardson(ends: Sequence[float], step: float, rounding: float) -> tuple[float, float | None]:
    if step == 0.0 or not all(map(math.isfinite, (*ends, rounding))):
        return math.nan, None
    coarse, fine = (ends[3] - ends[0]) / (2 * step), (ends[2] - ends[1]) / step
    extrapolated = (4 * fine - coarse) / 3
    if abs(coarse - fine) > _SMOOTH * max(abs(coarse), abs(fine)):
        return extrapolated, None
    # Four rounded values enter, the inner two with weights of 4/3 over the step.
    return extrapolated, 4 * rounding / step


def rounding_error(expression: Expression, point: Mapping[str, float]) -> float:
    """Bound on the rounding error of the value at a point, propagated through all operations.

    >>> from assay.model.language.expression import Symbol
    >>> x = Symbol("x")
    >>> 1e-13 < rounding_error((1e3 + x) - 1e3, {"x": 1.0}) < 1e-12
    True
    """
    values = evaluate_nodes(expression, point)
    weights = {id(expression): 1.0}
    error = 0.0
    for node in reversed(postorder(expression)):
        weight = weights.get(id(node), 0.0)
        if weight == 0.0 or not isinstance(node, Operation):
            continue
        error += weight * _EPSILON * abs(values[id(node)])
        operands = [values[id(operand)] for operand in node.operands]
        for position, operand in enumerate(node.operands):
            slope = _slope(node.operator, operands, position)
            weights[id(operand)] = weights.get(id(operand), 0.0) + weight * slope
    return error


def _slope(operator: str, operands: list[float], position: int) -> float:
    """The size of an operation's derivative by one operand; a jump counts as none."""
    value = operands[position]
    step = _NUDGE * max(abs(value), _SMALLEST)
    evaluate = OPERATORS[operator].evaluate
    above = evaluate(*operands[:position], value + step, *operands[position + 1 :])
    below = evaluate(*operands[:position], value - step, *operands[position + 1 :])
    slope = abs(above - below) / (2 * step)
    return slope if math.isfinite(slope) else 0.0
