"""Shares of a resolved value: how much of it goes through each variable of its cone.

The share of a variable is its elasticity, the exact logarithmic derivative: the per cent by which
the value changes for one per cent of the variable. Where an equation adds, the shares of its terms
are their parts of the sum; where it multiplies, every factor carries the whole product; a divisor
has a negative share. Reverse accumulation (Griewank and Walther 2008, Evaluating Derivatives,
chapter 3) over the relations that were used gives all shares at once.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.lazy_import import np
from assay.model import store
from assay.model.graphs.digraph import strongly_connected_components
from assay.model.language.dynamics import Iterative
from assay.model.language.expression import Expression, variables_of
from assay.model.language.relations import Relation
from assay.model.tapes.program import TapeProgram

if TYPE_CHECKING:
    from assay._native import Tape
    from assay.model.declarations import Declarations
    from assay.model.resolving.resolution import Resolution

Edge = tuple[str, str]
"""A computed variable and one of its inputs."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Elasticities of a target by variable, and of each variable by its own inputs.

    An edge is absent where a relation has no slope: `opaque` names such variables. A share is
    absent where its value or the target is zero or the target has no value.
    """

    of_target: Mapping[str, float]
    local: Mapping[Edge, float]
    opaque: tuple[str, ...] = ()


def shares(registry: Declarations, resolution: Resolution) -> Shares:
    """The share of every variable in a resolved value."""
    values = {step.variable.name: step.value for step in resolution.trace}
    relations = {s.variable.name: s.relation for s in resolution.trace if s.relation is not None}
    sides = {name: _right_side(relation) for name, relation in relations.items()}
    formulas = {name: side for name, side in sides.items() if side is not None}
    slopes = _slopes(registry, {n: relations[n] for n in formulas}, formulas, values)
    opaque = tuple(name for name, side in sides.items() if side is None)
    # At the fixed point of x = u(x, p), a change of p is passed on by 1 / (1 - du/dx).
    local = {
        (name, needed): slope / (1 - slopes.get((name, name), 0.0)) * values[needed] / values[name]
        for (name, needed), slope in slopes.items()
        if name != needed and needed in values and values[name] != 0 and math.isfinite(slope)
    }
    target = resolution.value
    if target is None or target == 0 or not math.isfinite(target):
        return Shares({}, local, opaque)
    weights = _accumulate(resolution.target, slopes, values)
    return Shares(
        {name: weight * values[name] / target for name, weight in weights.items()}, local, opaque
    )


def _right_side(relation: Relation) -> Expression | None:
    """The formula whose slopes are those of the relation; a fixed point has those of its update."""
    return relation.part("update") if isinstance(relation, Iterative) else relation.expression


def _slopes(
    registry: Declarations,
    relations: Mapping[str, Relation],
    formulas: Mapping[str, Expression],
    values: Mapping[str, float],
) -> dict[Edge, float]:
    """The derivative of every variable by each of its own inputs, the others held."""
    if not formulas:
        return {}
    edges = [(name, needed) for name, side in formulas.items() for needed in variables_of(side)]
    key = store.fingerprint(registry.key, "slopes", [r.name for r in relations.values()])
    tape = store.cached_tape(key, lambda: _lower(formulas, edges))
    # An input without a value belongs to a branch that is not taken, whose slope is zero.
    inputs = [values.get(needed, math.nan) for _, needed in edges]
    slopes = array("d", [0.0] * len(edges))
    out = memoryview(slopes).cast("B").cast("d", (len(edges), 1))
    # Every edge is an input of its own: one pass backward has the slopes of all of them.
    tape.vjp(inputs, 1, [1.0] * len(formulas), out)
    return dict(zip(edges, slopes, strict=True))


def _lower(formulas: Mapping[str, Expression], edges: Sequence[Edge]) -> Tape:
    program = TapeProgram(len(edges))
    position = {edge: program.input(index) for index, edge in enumerate(edges)}
    outputs = [
        program.expression(side, lambda needed, name=name: position[name, needed])  # type: ignore[misc]
        for name, side in formulas.items()
    ]
    return program.finish(outputs)


def _accumulate(
    target: str, slopes: Mapping[Edge, float], values: Mapping[str, float]
) -> dict[str, float]:
    """The derivative of the target by every variable of its cone."""
    users: dict[str, list[str]] = {name: [] for name in values}
    for name, needed in slopes:
        if needed in users:
            users[needed].append(name)
    weights: dict[str, float] = {}
    # Components come with those that use them first.
    for component in strongly_connected_components(users):
        inside = set(component)
        seeds = [
            float(name == target)
            + sum(
                weights.get(user, 0.0) * slopes[user, name]
                for user in users[name]
                if user not in inside and math.isfinite(slopes[user, name])
            )
            for name in component
        ]
        if len(component) > 1 or component[0] in users[component[0]]:
            seeds = _solve(component, slopes, seeds)
        weights.update(zip(component, seeds, strict=True))
    return weights


def _solve(
    component: Sequence[str], slopes: Mapping[Edge, float], seeds: Sequence[float]
) -> list[float]:
    """Weights inside a simultaneous block, whose members feed each other."""
    matrix = np.eye(len(component))
    for row, needed in enumerate(component):
        for column, name in enumerate(component):
            matrix[row, column] -= slopes.get((name, needed), 0.0)
    return [float(weight) for weight in np.linalg.solve(matrix, np.array(seeds))]
