"""Whole values next to a solution: 7.5 GPUs meet a deadline, but one buys 7 or 8."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from assay.errors import AssayError
from assay.model.inputs import Inputs, nearest_whole
from assay.model.language.variables import Variable
from assay.model.resolving.resolution import Resolution
from assay.model.resolving.resolve import resolve

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

MOST_COUNTS: Final = 3
"""Unknown counts of which every combination of both neighbors is tried."""


@dataclass(frozen=True, slots=True)
class WholeNeighbor:
    """The unknowns with every count whole, and the required variables as resolved there."""

    values: dict[str, float]
    variables: dict[str, Variable] = field(repr=False)
    resolutions: dict[str, Resolution] = field(repr=False)

    @property
    def violated(self) -> list[str]:
        """Constraints that do not hold there, each once."""
        names = [v.name for r in self.resolutions.values() for v in r.violated]
        return list(dict.fromkeys(names))

    def to_data(self) -> dict[str, Any]:
        """The neighbor as plain data, every value in its variable's display unit."""
        return {
            "unknowns": [_shown(self.variables[name], v) for name, v in self.values.items()],
            "required": [_shown(r.variable, r.require_value()) for r in self.resolutions.values()],
            "violated": self.violated,
        }


def find_whole_neighbors(
    registry: Declarations,
    solved: Mapping[str, float],
    given: Mapping[str, float],
    required: Mapping[str, float],
    variants: Mapping[str, str],
    *,
    switch: bool,
) -> tuple[WholeNeighbor, ...]:
    """The nearest whole values on either side of each count that is not whole."""
    counts = [n for n, v in solved.items() if registry.variables[n].is_count]
    broken = [name for name in counts if nearest_whole(solved[name]) is None]
    if not broken:
        return ()
    sides = [_sides(registry, name, solved[name]) for name in broken[:MOST_COUNTS]]
    sides += [[float(round(solved[name]))] for name in broken[MOST_COUNTS:]]
    neighbors = []
    for chosen in product(*sides):
        values = {**solved, **dict(zip(broken, chosen, strict=True))}
        inputs = Inputs({**given, **values})
        try:
            resolutions = {
                name: resolve(registry, name, inputs, variants, switch=switch) for name in required
            }
        except AssayError:
            # A neighbor without a value is none to choose.
            continue
        if all(resolution.value is not None for resolution in resolutions.values()):
            variables = {name: registry.variables[name] for name in values}
            neighbors.append(WholeNeighbor(values, variables, resolutions))
    return tuple(neighbors)


def _sides(registry: Declarations, name: str, value: float) -> list[float]:
    variable = registry.variables[name]
    sides = [float(math.floor(value)), float(math.ceil(value))]
    return [side for side in sides if variable.lower <= side <= variable.upper]


def _shown(variable: Variable, value: float) -> dict[str, Any]:
    return {"name": variable.name, "value": variable.shown(value), "unit": variable.display.text}
