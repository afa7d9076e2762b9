"""Cases as points of the graph, grouped by the inputs that they give.

An input that a case does not give is missing, not zero: accelerators state their links and memory
in different variables, and a tape is valid only for the inputs it was compiled for. The cases
that give the same inputs share one tape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from assay.array_types import Floats
from assay.model.tapes.compile import Compiled
from assay.model.tapes.cones import Cones
from assay.stack import registry


@dataclass(frozen=True)
class Cone:
    """Outputs as a function of inputs, and for each output without a value what is missing."""

    function: Compiled | None
    outputs: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]]


Variants = tuple[tuple[str, str], ...]
"""Relations chosen for variables that have several."""


@cache
def compile_known(
    inputs: tuple[str, ...], outputs: tuple[str, ...], variants: Variants = ()
) -> Cone:
    """Compile the outputs that the inputs determine."""
    chosen = dict(variants)
    cones = Cones(registry(), inputs, chosen, switch=True)
    missing = {name: tuple(absent) for name in outputs if (absent := cones.missing_inputs([name]))}
    known = tuple(name for name in outputs if name not in missing)
    function = (
        registry().compile(inputs=list(inputs), outputs=list(known), variants=chosen)
        if known
        else None
    )
    return Cone(function, known, missing)


@dataclass(frozen=True)
class Group:
    """Points that give the same inputs: their positions, and one row of values for each input."""

    names: tuple[str, ...]
    positions: NDArray[np.intp]
    columns: Floats


class GroupedPoints:
    """Points with inputs of their own each, evaluated with one tape for each set of inputs."""

    def __init__(self, points: Sequence[Mapping[str, float]], variants: Variants = ()) -> None:
        """Collect the inputs of all points, by variable."""
        self.count = len(points)
        self.variants = variants
        positions: dict[tuple[str, ...], list[int]] = {}
        self._names = [tuple(sorted(point)) for point in points]
        for position, names in enumerate(self._names):
            positions.setdefault(names, []).append(position)
        self.groups = tuple(
            Group(
                names,
                np.array(members),
                np.array([[points[member][name] for member in members] for name in names]),
            )
            for names, members in positions.items()
        )

    def evaluate(self, outputs: Sequence[str]) -> dict[str, Floats]:
        """Each output, one number a point; NaN where inputs are missing."""
        columns = {name: np.full(self.count, np.nan) for name in outputs}
        for group in self.groups:
            cone = compile_known(group.names, tuple(outputs), self.variants)
            if cone.function is None:
                continue
            values = cone.function(*group.columns)
            for name, column in zip(cone.outputs, values, strict=True):
                columns[name][group.positions] = column
        return columns

    def missing(self, position: int, outputs: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """The outputs of a point without a value, with the inputs that they lack."""
        return compile_known(self._names[position], tuple(outputs), self.variants).missing
