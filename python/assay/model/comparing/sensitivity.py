"""Sensitivity of a value to its inputs: elasticities, and what a change of each does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import InputError, MissingInputsError
from assay.model.inputs import Inputs
from assay.model.language.variables import Variable
from assay.model.resolving.resolver import Resolver
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    from assay.model.registry import Registry


@dataclass(frozen=True, slots=True)
class InputSensitivity:
    """How the target follows one input.

    `elasticity` is the exact logarithmic derivative, the per cent by which the target changes for
    one per cent of the input; None where target or input is zero. `low` and `high` are the target
    at the ends of the input's range: its 90 % interval where it is uncertain, else the input
    changed by the relative step, inside its bounds.
    """

    variable: Variable
    value: float
    elasticity: float | None
    ends: tuple[float, float]
    low: float
    high: float
    is_uncertain: bool

    @property
    def swing(self) -> float:
        """Largest change of the target over the range of the input."""
        change = abs(self.high - self.low)
        return change if math.isfinite(change) else math.inf

    def to_data(self, target: Variable) -> dict[str, Any]:
        """The sensitivity as plain data, in display units."""
        shown = self.variable.shown
        return {
            "input": self.variable.name,
            "value": shown(self.value),
            "unit": self.variable.display.text,
            "elasticity": self.elasticity,
            "range": [shown(end) for end in self.ends],
            "uncertain": self.is_uncertain,
            "target_at_range": [target.shown(self.low), target.shown(self.high)],
        }


@dataclass(frozen=True, slots=True)
class Sensitivities:
    """The inputs of a target, the one that moves it most first; `unmoved` do not move it."""

    target: Variable
    value: float
    step: float
    inputs: tuple[InputSensitivity, ...]
    unmoved: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "target": self.target.name,
            "value": self.target.shown(self.value),
            "unit": self.target.display.text,
            "step": self.step,
            "inputs": [item.to_data(self.target) for item in self.inputs],
            "unmoved": list(self.unmoved),
            "notes": list(self.notes),
        }


def sensitivities(
    registry: Registry,
    target: str,
    inputs: Inputs,
    variants: Mapping[str, str],
    *,
    step: float = 0.1,
    switch: bool = True,
) -> Sensitivities:
    """Elasticities and swings of every given input below a target."""
    if not 0 < step < 1:
        raise InputError(f"step: expected a number between 0 and 1, got {step:g}")
    variable = registry.variable(target)
    resolver = Resolver(registry, inputs, variants, switch=switch)
    value = resolver.value(target)
    if value is None:
        gaps = [gap.variable.name for gap in resolver.missing(target)]
        raise MissingInputsError(f"{target} needs {len(gaps)} more inputs", gaps)
    cone = resolver.cone(target)
    names = [name for name in inputs.values if name in cone and name != target]
    function = PointFunction(
        registry, names, inputs.values, variants, switch=switch, outputs=[target]
    )
    point = np.array([inputs.values[name] for name in names])
    slopes = function.jacobian(point)[0] if names else np.empty(0)
    ends = np.array([_range(registry.variables[n], inputs, n, step) for n in names]).reshape(-1, 2)
    columns = np.repeat(point[:, None], 2 * len(names), axis=1)
    for row in range(len(names)):
        columns[row, 2 * row : 2 * row + 2] = ends[row]
    reached = function(columns)[0] if names else np.empty(0)
    effects = [
        InputSensitivity(
            registry.variables[name], float(point[row]), _elasticity(slopes[row], point[row], value),
            (float(ends[row, 0]), float(ends[row, 1])),
            float(reached[2 * row]), float(reached[2 * row + 1]), name in inputs.distributions,
        )
        for row, name in enumerate(names)
    ]  # fmt: skip
    moved = [item for item in effects if item.swing > 0 or item.elasticity]
    return Sensitivities(
        variable, value, step, tuple(sorted(moved, key=lambda item: -item.swing)),
        tuple(item.variable.name for item in effects if item not in moved),
        () if function.exact else (f"derivatives by differences: {function.note}",),
    )  # fmt: skip


def _elasticity(slope: float, at: float, value: float) -> float | None:
    if at == 0 or value == 0 or not math.isfinite(slope):
        return None
    return float(slope * at / value)


def _range(variable: Variable, inputs: Inputs, name: str, step: float) -> tuple[float, float]:
    """The 90 % interval of an uncertain input, else a relative change, inside its bounds."""
    if (distribution := inputs.distributions.get(name)) is not None:
        low, high = map(float, distribution.quantile(np.array([0.05, 0.95])))
    else:
        at = inputs.values[name]
        low, high = sorted((at * (1 - step), at * (1 + step)))
    low, high = max(low, variable.lower), min(high, variable.upper)
    if variable.is_count:
        # The whole numbers nearest to the change: a count of 1 stays 1.
        below = round(low)
        low, high = float(below if below >= variable.lower else math.ceil(low)), float(round(high))
    return low, high
