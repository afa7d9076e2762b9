"""What would have to be true: the single inputs that, changed alone, give an observed figure.

Every input of a case is tried in turn through the graph. Numbers are solved for; settings of the
software and number formats are tried at their other values. Shapes of the model, counts that the
case states, and the model error itself are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.answers import data_of
from assay.array_types import Floats
from assay.model.inputs import Inputs
from assay.model.tapes.compile import Compiled
from assay.stack import registry
from assay.validate.model_error import PART
from assay.validate.points import compile_known

LARGEST = 8.0
"""An input is tried from its eighth to eight times its value."""
_FACTORS = np.exp(np.linspace(-math.log(LARGEST), math.log(LARGEST), 65))

SETTINGS = {
    "parallelism.recompute": (0.0, 1.0, 2.0), "parallelism.sequence_parallel": (0.0, 1.0),
    "software.attention": (0.0, 1.0, 2.0), "training.compute_bits": (4.0, 8.0, 16.0),
    "serving.compute_bits": (4.0, 8.0, 16.0), "serving.expert_bits": (4.0, 8.0, 16.0),
    "serving.kv_bytes": (1.0, 2.0), "serving.weight_bytes": (0.5625, 1.0, 2.0),
    "serving.expert_bytes": (0.5625, 1.0, 2.0),
}  # fmt: skip
"""Settings with more values than off and on."""
_SWITCHES = "software."
_CLOSER = 0.5
"""A setting explains a miss if no more than this share of it is left."""


@dataclass(frozen=True)
class SingleChange:
    """One input at another value, and what the figure is then over the observed one."""

    name: str
    unit: str
    before: float
    after: float
    ratio: float
    spreads: float | None = None
    """The change in standard errors of the input's logarithm, where it has one."""

    @property
    def factor(self) -> float | None:
        """The value over the one before; None for switches."""
        return self.after / self.before if self.before > 0 and self.after > 0 else None

    def to_data(self) -> dict[str, Any]:
        """The change as plain data."""
        return data_of(self, "name unit before after ratio factor spreads")


def single_changes(inputs: Inputs, output: str, observed: float) -> list[SingleChange]:
    """Every change of one input that gives the observed output, the smallest first.

    Settings come first: they have no size, and one that explains the miss is the likelier cause.
    """
    names = tuple(sorted(inputs.values))
    function = compile_known(names, (output,)).function
    if function is None:
        return []
    values = np.array([inputs.values[name] for name in names])
    predicted = float(function(*values)[0])
    if not (math.isfinite(predicted) and predicted > 0 and observed > 0):
        return []
    changes = _settings(function, names, values, observed, predicted)
    for name, after in _solved(function, names, values, observed):
        variable, before = registry().variables[name], inputs.values[name]
        spread = inputs.distributions.get(name)
        spreads = None
        if spread is not None and spread.kind == "lognormal" and spread.parameters[1] > 0:
            spreads = abs(math.log(after / before)) / spread.parameters[1]
        changes.append(
            SingleChange(name, variable.display.text, variable.shown(before), variable.shown(after),
                   1.0, spreads)
        )  # fmt: skip
    return changes


def _settings(
    function: Compiled, names: Sequence[str], values: Floats, observed: float, predicted: float
) -> list[SingleChange]:
    """Settings at values that leave at most half of the miss."""
    tried = []
    for position, name in enumerate(names):
        own = SETTINGS.get(name, (0.0, 1.0) if name.startswith(_SWITCHES) else ())
        if values[position] in own:
            tried += [(position, value) for value in own if value != values[position]]
    if not tried:
        return []
    points = np.repeat(values[:, None], len(tried), axis=1)
    for column, (position, value) in enumerate(tried):
        points[position, column] = value
    miss = abs(math.log(observed / predicted))
    changes = []
    for (position, value), figure in zip(tried, function(*points)[0], strict=True):
        if figure > 0 and abs(math.log(observed / figure)) <= _CLOSER * miss:
            name = names[position]
            unit = registry().variables[name].display.text
            ratio = float(figure) / observed
            changes.append(SingleChange(name, unit, float(values[position]), value, ratio))
    return sorted(changes, key=lambda change: abs(math.log(change.ratio)))


def _solved(
    function: Compiled, names: Sequence[str], values: Floats, observed: float
) -> list[tuple[str, float]]:
    """Inputs and the values at which the output is as observed, the smallest factor first."""
    tried = [p for p, name in enumerate(names) if values[p] > 0 and _is_number(name)]
    points = np.repeat(values[:, None], len(tried) * len(_FACTORS), axis=1)
    for row, position in enumerate(tried):
        columns = slice(row * len(_FACTORS), (row + 1) * len(_FACTORS))
        variable = registry().variables[names[position]]
        points[position, columns] = np.clip(
            values[position] * _FACTORS, variable.lower, variable.upper
        )
    figures = function(*points)[0].reshape(len(tried), len(_FACTORS))
    values_by_name = []
    for row, position in enumerate(tried):
        factor = _crossing(figures[row], observed)
        if factor is None:
            continue
        after = factor * values[position]
        variable = registry().variables[names[position]]
        if variable.lower <= after <= variable.upper:
            values_by_name.append((abs(math.log(factor)), names[position], float(after)))
    return [(name, after) for _, name, after in sorted(values_by_name)]


def _is_number(name: str) -> bool:
    """Whether an input is a measured or fitted number, not a shape, a count or a choice."""
    variable = registry().variables[name]
    if PART in name or name.startswith("architecture.") or variable.nature == "count":
        return False
    return variable.boundary != "scenario"


def _crossing(figures: Floats, observed: float) -> float | None:
    """The factor nearest to one at which the figures cross the observed one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.log(figures / observed)
    starts = np.flatnonzero(np.isfinite(apart[:-1] + apart[1:]) & (apart[:-1] * apart[1:] <= 0))
    best: float | None = None
    for start in starts:
        first, second = float(apart[start]), float(apart[start + 1])
        if first == second:
            continue
        share = first / (first - second)
        log = math.log(_FACTORS[start]) * (1 - share) + math.log(_FACTORS[start + 1]) * share
        if best is None or abs(log) < abs(math.log(best)):
            best = math.exp(log)
    return best
