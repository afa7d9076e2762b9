"""The formulas of a registry, and random points to evaluate them at."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.model.language.expression import Expression, Number, Operation, evaluate, postorder
from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable

if TYPE_CHECKING:
    from assay.model.registry import Registry

POINTS = 3
ATTEMPTS = 40
_LARGE = 60
"""Nodes from which only one instance of a template is checked, and SymPy gets numbers."""

Point = dict[str, float]


class Formula(NamedTuple):
    """A relation's closed right-hand side or condition; a large one is long when written out."""

    relation: Relation
    expression: Expression
    large: bool


def formulas(registry: Registry) -> list[Formula]:
    """All formulas; of large ones that differ only in names and numbers, the first.

    Those are instances of one template, so checking one is enough.
    """
    checked, shapes = [], set()
    for relation in registry.relations.values():
        expression = relation.expression
        if expression is None:
            continue
        large = _expanded_size(expression) > _LARGE
        if large:
            shape = _shape(expression)
            if shape in shapes:
                continue
            shapes.add(shape)
        checked.append(Formula(relation, expression, large))
    return checked


def _expanded_size(expression: Expression) -> int:
    """Nodes of an expression with shared branches counted each time."""
    sizes: dict[int, int] = {}
    for node in postorder(expression):
        operands = node.operands if isinstance(node, Operation) else ()
        sizes[id(node)] = 1 + sum(sizes[id(operand)] for operand in operands)
    return sizes[id(expression)]


def _shape(expression: Expression) -> tuple[Any, ...]:
    """The structure of an expression without its names and numbers."""
    positions: dict[int, int] = {}
    shape: list[Any] = []
    for node in postorder(expression):
        operands = node.operands if isinstance(node, Operation) else ()
        kind = node.operator if isinstance(node, Operation) else type(node) is Number
        shape.append((kind, *(positions[id(operand)] for operand in operands)))
        positions[id(node)] = len(positions)
    return tuple(shape)


def random_value(variable: Variable, random: Random, decades: float = 2.0) -> float:
    """A value within the variable's bounds, within some decades of its display unit."""
    if isinstance(variable, Constant):
        return variable.value
    lower, upper = variable.lower, variable.upper
    if math.isfinite(lower) and math.isfinite(upper):
        return lower + random.random() * (upper - lower)
    size = float(variable.display.scale) * math.pow(10.0, random.uniform(-decades, decades))
    if math.isfinite(lower):
        return lower + size
    if math.isfinite(upper):
        return upper - size
    return random.choice((-size, size))


def finite_points(registry: Registry, relation: Relation, expression: Expression) -> list[Point]:
    """Points at which an expression of the relation has a finite value."""
    random = Random(relation.name)
    variables = [registry.variable(name) for name in relation.inputs]
    points: list[Point] = []
    for attempt in range(ATTEMPTS):
        decades = 2.0 if attempt < ATTEMPTS // 2 else 9.0
        point = {v.name: random_value(v, random, decades) for v in variables}
        if math.isfinite(evaluate(expression, point)):
            points.append(point)
        if len(points) == POINTS:
            break
    return points
