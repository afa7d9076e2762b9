"""Random equation graphs of a chosen size, with consistent units."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from assay.model import Scope, exp, log, maximum, minimum, number, sqrt, total, where
from assay.model.language.expression import Expression, evaluate
from assay.model.language.variables import Variable
from assay.model.registry import Registry

_UNITS = ("s", "B", "FLOP", "USD", "token", "W", "GPU", "B/s", "FLOP/s", "1", "K", "V", "m", "J")


@dataclass(frozen=True)
class GeneratedGraph:
    """A registry, the names of its roots and targets, and a point where values are near one."""

    registry: Registry
    roots: tuple[str, ...]
    targets: tuple[str, ...]
    point: dict[str, float]


def generate(
    relations: int, roots: int, targets: int = 4, scopes: int = 1, seed: int = 0
) -> GeneratedGraph:
    """Build a graph in which every relation is in the cone of a target.

    Each relation is scaled to the value one at the point, which keeps values finite at any depth.
    """
    return _Generator(random.Random(seed)).build(relations, roots, targets, scopes)


class _Generator:
    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.by_unit: dict[str, list[Variable]] = {}
        self.unused: dict[str, list[Variable]] = {}
        self.point: dict[str, float] = {}

    def build(self, relations: int, roots: int, targets: int, scopes: int) -> GeneratedGraph:
        layers = [Scope(f"part{index}", "a generated layer") for index in range(scopes)]
        for index in range(roots):
            # The first roots cover every unit, so that a formula always finds operands.
            unit = _UNITS[index % len(_UNITS)]
            variable = layers[0].variable(
                f"root{index}", f"r_{index}", unit, "a generated input", boundary="scenario"
            )
            self.add(variable, unit, self.random.uniform(0.5, 2.0))
        body = relations - targets
        for index in range(body):
            part = layers[index * scopes // body]
            unit, expression = self.formula()
            self.declare(part, f"value{index}", unit, expression)
        names = []
        leftovers = [variable for variables in self.unused.values() for variable in variables]
        for index in range(targets):
            share = leftovers[index::targets] or [self.by_unit["1"][0]]
            expression = total(*(variable / _one(variable) for variable in share))
            names.append(
                self.declare(layers[-1], f"target{index}", "1", expression, target=True).name
            )
        registry = Registry.from_scopes(layers)
        return GeneratedGraph(
            registry,
            tuple(registry.roots),
            tuple(names),
            {r: self.point[r] for r in registry.roots},
        )

    def add(self, variable: Variable, unit: str, value: float) -> None:
        self.by_unit.setdefault(unit, []).append(variable)
        self.unused.setdefault(unit, []).append(variable)
        self.point[variable.name] = value

    def declare(
        self, part: Scope, name: str, unit: str, expression: Expression, target: bool = False
    ) -> Variable:
        value = evaluate(expression, self.point)
        scale = float(f"{1.0 / value:.3g}")
        variable = part.variable(
            name,
            name,
            unit,
            "a generated quantity",
            equals=expression * scale,
            target=target,
            bounds=(None, None),
        )
        if target:
            self.point[variable.name] = value * scale
        else:
            self.add(variable, unit, value * scale)
        return variable

    def draw(self, unit: str) -> Variable:
        """A variable of the unit, preferably one that nothing uses yet."""
        unused = self.unused.get(unit)
        if unused:
            return unused.pop(self.random.randrange(len(unused)))
        return self.random.choice(self.by_unit[unit])

    def formula(self) -> tuple[str, Expression]:
        """One formula; the mix of operations is that of performance models."""
        unit = self.random.choice(_UNITS)
        a = self.draw(unit)
        kind = self.random.random()
        if kind < 0.10:
            return unit, maximum(a, self.draw(unit) * 0.8) + 0.05 * minimum(a, self.draw(unit))
        other = self.random.choice(_UNITS)
        b, c = self.draw(other), self.draw(other)
        if kind < 0.40:
            return unit, a * b / (b + c)
        if kind < 0.60:
            return unit, a * (1 + 0.1 * b / c) + 0.25 * self.draw(unit)
        if kind < 0.72:
            return unit, (a + self.draw(unit)) * (b / c)
        if kind < 0.80:
            return unit, sqrt(a * self.draw(unit)) * (b / (b + c))
        if kind < 0.86:
            return unit, a * (b / c) ** 2 / (1 + (b / c) ** 3)
        if kind < 0.90:
            return unit, a * exp(-0.3 * b / (b + c))
        if kind < 0.94:
            return unit, a * log(2 + b / c)
        if kind < 0.97:
            return unit, a / (1 + (b / (b + c)) ** 1.5)
        return unit, where(b < c, a * 0.9, a * 1.1)


def _one(variable: Variable) -> Expression:
    return number(f"1 {variable.unit}")


def spread_point(graph: GeneratedGraph, seed: int) -> dict[str, float]:
    """A random point near the graph's own."""
    source = random.Random(seed)
    return {
        name: value * math.exp(source.uniform(-0.2, 0.2)) for name, value in graph.point.items()
    }
