"""Random graphs with two independent meanings: our expressions and plain Python functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from hypothesis import strategies as st

from assay.model import (
    ANY_SIGN,
    Registry,
    Scope,
    atan,
    ceil,
    cos,
    different,
    erf,
    exp,
    floor,
    log,
    log2,
    log10,
    maximum,
    minimum,
    sin,
    sqrt,
    tan,
    tanh,
    where,
)
from assay.model.language.expression import Expression
from assay.model.language.variables import Variable

Python = Callable[[float, float, float], float]
Ours = Callable[[Variable, Variable, Variable], Expression]

# Each formula twice, written independently; finite for positive operands of moderate size.
SMOOTH: list[tuple[Ours, Python]] = [
    (lambda a, b, c: a + b - c / 3, lambda a, b, c: a + b - c / 3),
    (lambda a, b, c: a * b / (b + c), lambda a, b, c: a * b / (b + c)),
    (lambda a, b, c: sqrt(a * b + c), lambda a, b, c: math.sqrt(a * b + c)),
    (lambda a, b, c: (a / b) ** 2 + c, lambda a, b, c: (a / b) ** 2 + c),
    (lambda a, b, c: (a / b) ** 0.7 * c, lambda a, b, c: math.pow(a / b, 0.7) * c),
    (lambda a, b, c: (1 + a / c) ** -3, lambda a, b, c: 1 / (1 + a / c) ** 3),
    (lambda a, b, c: a * exp(-b / (b + c)), lambda a, b, c: a * math.exp(-b / (b + c))),
    (lambda a, b, c: a + log(1 + b / c), lambda a, b, c: a + math.log(1 + b / c)),
    (
        lambda a, b, c: log2(1 + a) * log10(10 + b * c),
        lambda a, b, c: math.log2(1 + a) * math.log10(10 + b * c),
    ),
    (
        lambda a, b, c: 2 + sin(a) * cos(b) * tanh(c),
        lambda a, b, c: 2 + math.sin(a) * math.cos(b) * math.tanh(c),
    ),
    (lambda a, b, c: 1 + erf(a / (b + c)), lambda a, b, c: 1 + math.erf(a / (b + c))),
    (
        lambda a, b, c: a + tan(atan(b)) * atan(c),
        lambda a, b, c: a + math.tan(math.atan(b)) * math.atan(c),
    ),
    (lambda a, b, c: -(-a - b) * 0.5 + abs(c), lambda a, b, c: (a + b) * 0.5 + abs(c)),
    (lambda a, b, c: (1 + a / b) ** (c / (c + 1)), lambda a, b, c: (1 + a / b) ** (c / (c + 1))),
]
KINKED: list[tuple[Ours, Python]] = [
    (lambda a, b, c: minimum(a, b, c) + 1, lambda a, b, c: min(a, b, c) + 1),
    (lambda a, b, c: maximum(a, b) / c, lambda a, b, c: max(a, b) / c),
    (
        lambda a, b, c: where(different(a, b), a + c, 2 * c),
        lambda a, b, c: a + c if a != b else 2 * c,
    ),
    (lambda a, b, c: where(a < b, a + c, b * c), lambda a, b, c: a + c if a < b else b * c),
    (
        lambda a, b, c: where((a >= b) & ~(c > 2) | (b > 3), a, b + c),
        lambda a, b, c: a if (a >= b and not c > 2) or b > 3 else b + c,
    ),
    (
        lambda a, b, c: floor(a * 3) + ceil(b) + c,
        lambda a, b, c: math.floor(a * 3) + math.ceil(b) + c,
    ),
    (lambda a, b, c: a % b + c, lambda a, b, c: a % b + c),
    # The branch not taken divides by zero.
    (lambda a, b, c: where(a > 0, a + c, b / (a - a)), lambda a, b, c: a + c),
]


@dataclass(frozen=True)
class RandomGraph:
    """A registry, a point for its roots, and the same graph as plain Python."""

    registry: Registry
    point: dict[str, float]
    formulas: list[tuple[str, Python, tuple[str, str, str]]]

    @property
    def targets(self) -> list[str]:
        return [name for name, _, _ in self.formulas]

    def direct(
        self,
        point: dict[str, float],
        targets: Collection[str] | None = None,
        nudge: float = 0.0,
    ) -> dict[str, float]:
        """All values by plain Python, or those that some targets are made of, each nudged a little."""
        needed = set(self.targets if targets is None else targets)
        for name, _, operands in reversed(self.formulas):
            needed |= set(operands) if name in needed else set()
        values = dict(point)
        for name, function, operands in self.formulas:
            if name in needed:
                exact = float(function(*(values[operand] for operand in operands)))
                values[name] = exact * (1.0 + nudge)
        return values

    def is_stable(self) -> bool:
        """Whether rounding decides nothing: a remainder or a comparison at a tie would jump."""
        exact = self.direct(self.point)
        return all(
            math.isclose(exact[name], value, rel_tol=1e-9, abs_tol=1e-9)
            for nudge in (1e-13, -1e-13)
            for name, value in self.direct(self.point, nudge=nudge).items()
        )


@st.composite
def random_graphs(
    draw: st.DrawFn,
    formulas: list[tuple[Ours, Python]] | None = None,
    max_relations: int = 25,
    least: int = 1,
) -> RandomGraph:
    """Draw a graph of up to `max_relations` relations over up to six roots, `least` of either."""
    table = SMOOTH + KINKED if formulas is None else formulas
    scope = Scope("g", "a random graph")
    variables: list[Variable] = []
    point: dict[str, float] = {}
    for index in range(draw(st.integers(least, 6))):
        variable = scope.variable(f"r{index}", f"r{index}", "1", "root", boundary="scenario")
        variables.append(variable)
        point[variable.name] = draw(st.floats(0.25, 4.0))
    values = dict(point)
    chosen: list[tuple[str, Python, tuple[str, str, str]]] = []
    for index in range(draw(st.integers(least, max_relations))):
        ours, python = draw(st.sampled_from(table))
        a, b, c = (draw(st.sampled_from(variables)) for _ in range(3))
        value = float(python(*(values[operand.name] for operand in (a, b, c))))
        # Values stay near one, so that a deep graph stays finite and well conditioned.
        shift = 1.0 - round(value, 2)
        expression = ours(a, b, c) + shift
        variable = scope.variable(
            f"v{index}", f"v{index}", "1", "value", equals=expression, bounds=ANY_SIGN
        )

        def shifted(x: float, y: float, z: float, f: Python = python, s: float = shift) -> float:
            return f(x, y, z) + s

        values[variable.name] = value + shift
        chosen.append((variable.name, shifted, (a.name, b.name, c.name)))
        variables.append(variable)
    return RandomGraph(Registry.from_scopes([scope]), point, chosen)
