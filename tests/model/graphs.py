"""Random graphs with two independent meanings: our expressions and plain Python functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
Distances = Callable[[float, float, float], tuple[float, ...]]


class Formula(NamedTuple):
    """A formula twice, written independently; finite for positive operands of moderate size."""

    ours: Ours
    python: Python
    # Signed distances of the operands from where the value jumps; continuous without any.
    jumps: Distances = lambda a, b, c: ()


def from_integer(value: float) -> float:
    """The signed distance from the nearest integer."""
    return value - round(value)


SMOOTH: list[Formula] = [
    Formula(lambda a, b, c: a + b - c / 3, lambda a, b, c: a + b - c / 3),
    Formula(lambda a, b, c: a * b / (b + c), lambda a, b, c: a * b / (b + c)),
    Formula(lambda a, b, c: sqrt(a * b + c), lambda a, b, c: math.sqrt(a * b + c)),
    Formula(lambda a, b, c: (a / b) ** 2 + c, lambda a, b, c: (a / b) ** 2 + c),
    Formula(lambda a, b, c: (a / b) ** 0.7 * c, lambda a, b, c: math.pow(a / b, 0.7) * c),
    Formula(lambda a, b, c: (1 + a / c) ** -3, lambda a, b, c: 1 / (1 + a / c) ** 3),
    Formula(lambda a, b, c: a * exp(-b / (b + c)), lambda a, b, c: a * math.exp(-b / (b + c))),
    Formula(lambda a, b, c: a + log(1 + b / c), lambda a, b, c: a + math.log(1 + b / c)),
    Formula(
        lambda a, b, c: log2(1 + a) * log10(10 + b * c),
        lambda a, b, c: math.log2(1 + a) * math.log10(10 + b * c),
    ),
    Formula(
        lambda a, b, c: 2 + sin(a) * cos(b) * tanh(c),
        lambda a, b, c: 2 + math.sin(a) * math.cos(b) * math.tanh(c),
    ),
    Formula(lambda a, b, c: 1 + erf(a / (b + c)), lambda a, b, c: 1 + math.erf(a / (b + c))),
    Formula(
        lambda a, b, c: a + tan(atan(b)) * atan(c),
        lambda a, b, c: a + math.tan(math.atan(b)) * math.atan(c),
    ),
    Formula(lambda a, b, c: -(-a - b) * 0.5 + abs(c), lambda a, b, c: (a + b) * 0.5 + abs(c)),
    Formula(
        lambda a, b, c: (1 + a / b) ** (c / (c + 1)), lambda a, b, c: (1 + a / b) ** (c / (c + 1))
    ),
]
DIFFERENT = Formula(
    lambda a, b, c: where(different(a, b), a + c, 2 * c),
    lambda a, b, c: a + c if a != b else 2 * c,
    lambda a, b, c: (a - b,),
)
KINKED: list[Formula] = [
    DIFFERENT,
    Formula(lambda a, b, c: minimum(a, b, c) + 1, lambda a, b, c: min(a, b, c) + 1),
    Formula(lambda a, b, c: maximum(a, b) / c, lambda a, b, c: max(a, b) / c),
    Formula(
        lambda a, b, c: where(a < b, a + c, b * c),
        lambda a, b, c: a + c if a < b else b * c,
        lambda a, b, c: (a - b,),
    ),
    Formula(
        lambda a, b, c: where((a >= b) & ~(c > 2) | (b > 3), a, b + c),
        lambda a, b, c: a if (a >= b and not c > 2) or b > 3 else b + c,
        lambda a, b, c: (a - b, c - 2, b - 3),
    ),
    Formula(
        lambda a, b, c: floor(a * 3) + ceil(b) + c,
        lambda a, b, c: math.floor(a * 3) + math.ceil(b) + c,
        lambda a, b, c: (from_integer(a * 3), from_integer(b)),
    ),
    Formula(
        lambda a, b, c: a % b + c, lambda a, b, c: a % b + c, lambda a, b, c: (from_integer(a / b),)
    ),
    # The branch not taken divides by zero.
    Formula(
        lambda a, b, c: where(a > 0, a + c, b / (a - a)),
        lambda a, b, c: a + c,
        lambda a, b, c: (a,),
    ),
]


@dataclass(frozen=True)
class RandomGraph:
    """A registry, a point for its roots, and the same graph as plain Python."""

    registry: Registry
    point: dict[str, float]
    formulas: list[tuple[str, Python, tuple[str, str, str]]]
    jumps: list[Distances]

    @property
    def targets(self) -> list[str]:
        return [name for name, _, _ in self.formulas]

    def direct(
        self, point: dict[str, float], targets: Collection[str] | None = None, nudge: float = 0.0
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
        """Whether rounding decides nothing: no value near a jump, none that magnifies an ulp."""
        exact = self.direct(self.point)
        return not any(
            self._is_near_a_jump(distances, operands, exact)
            for distances, (_, _, operands) in zip(self.jumps, self.formulas, strict=True)
        ) and all(
            math.isclose(exact[name], value, rel_tol=1e-9, abs_tol=1e-9)
            for nudge in (1e-13, -1e-13)
            for name, value in self.direct(self.point, nudge=nudge).items()
        )

    def _is_near_a_jump(
        self, distances: Distances, operands: tuple[str, str, str], values: dict[str, float]
    ) -> bool:
        """Whether operands that differ by rounding, each on its own, may fall on both sides.

        Roots are exact. A variable beside itself is a tie however it was rounded, while two that
        agree by accident are not: an ulp makes them differ, and no common nudge would show it.
        """
        computed = sorted(set(operands) - set(self.point))
        signs = set()
        for nudges in itertools.product((-1e-9, 0.0, 1e-9), repeat=len(computed)):
            nudged = {
                n: values[n] * (1.0 + nudge) for n, nudge in zip(computed, nudges, strict=True)
            }
            a, b, c = (nudged.get(operand, values[operand]) for operand in operands)
            signs.add(tuple((distance > 0) - (distance < 0) for distance in distances(a, b, c)))
        return len(signs) > 1


def build_graph(
    roots: list[float], rows: Sequence[tuple[Formula, tuple[int, int, int]]]
) -> RandomGraph:
    """A graph of formulas, each of three variables before it: the roots first, then the formulas."""
    scope = Scope("g", "a random graph")
    variables = [
        scope.variable(f"r{index}", f"r{index}", "1", "root", boundary="scenario")
        for index in range(len(roots))
    ]
    point = {variable.name: root for variable, root in zip(variables, roots, strict=True)}
    values = list(roots)
    chosen: list[tuple[str, Python, tuple[str, str, str]]] = []
    for index, ((ours, python, _), places) in enumerate(rows):
        a, b, c = (variables[place] for place in places)
        value = float(python(*(values[place] for place in places)))
        # Values stay near one, so that a deep graph stays finite and well conditioned.
        shift = 1.0 - round(value, 2)
        expression = ours(a, b, c) + shift
        variable = scope.variable(
            f"v{index}", f"v{index}", "1", "value", equals=expression, bounds=ANY_SIGN
        )

        def shifted(x: float, y: float, z: float, f: Python = python, s: float = shift) -> float:
            return f(x, y, z) + s

        values.append(value + shift)
        variables.append(variable)
        chosen.append((variable.name, shifted, (a.name, b.name, c.name)))
    jumps = [formula.jumps for formula, _ in rows]
    return RandomGraph(Registry.from_scopes([scope]), point, chosen, jumps)


@st.composite
def random_graphs(
    draw: st.DrawFn, formulas: list[Formula] | None = None, max_relations: int = 25, least: int = 1
) -> RandomGraph:
    """Draw a graph of up to `max_relations` relations over up to six roots, `least` of either."""
    table = SMOOTH + KINKED if formulas is None else formulas
    roots = draw(st.lists(st.floats(0.25, 4.0), min_size=least, max_size=6))
    rows = []
    for last in range(len(roots) - 1, len(roots) - 1 + draw(st.integers(least, max_relations))):
        place = st.integers(0, last)
        rows.append((draw(st.sampled_from(table)), (draw(place), draw(place), draw(place))))
    return build_graph(roots, rows)
