"""The result of minimizing: the best choices and the binding constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.answers import data_of
from assay.model.language.variables import Variable
from assay.model.resolving.resolution import ConditionVerdict, Resolution

Chosen = dict[str, float | str]
"""Chosen values in base units by variable; names of relations under `variant:NAME`."""


@dataclass(frozen=True, slots=True)
class BindingConstraint:
    """A constraint, or the end of a range, that keeps the target from being better.

    `gain` is by how much the best value would improve without this constraint, among enumerated
    choices. `price` is the Lagrange multiplier where choices are continuous: the improvement per unit
    of slack, the unit being that of the constraint's two sides. Both in base units; None where they
    are not defined.
    """

    name: str
    text: str
    meaning: str = ""
    gain: float | None = None
    price: float | None = None

    def to_data(self, target: Variable) -> dict[str, Any]:
        """The constraint as plain data, with gain and price in the target's display unit."""
        scale = target.shown(1.0) - target.shown(0.0)
        return {
            "name": self.name,
            "text": self.text,
            "meaning": self.meaning,
            "gain": None if self.gain is None else self.gain * scale,
            "price": None if self.price is None else self.price * scale,
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Choices and the target's value there, in base units."""

    value: float
    choices: Chosen


@dataclass(frozen=True, slots=True)
class Optimum:
    """The choices that minimize the target, or maximize it; numbers in base units.

    Of `points` combinations `feasible` fulfill every constraint, and `undefined` give the target
    no finite value. `evaluated` is lower than `points` where independent choices were searched
    separately. `unknown` lists the constraints that could not be checked.
    """

    target: Variable
    value: float
    choices: Chosen
    resolution: Resolution = field(repr=False)
    method: str
    points: int
    evaluated: int
    feasible: int
    undefined: int
    excluded: dict[str, int]
    binding: tuple[BindingConstraint, ...]
    unknown: tuple[ConditionVerdict, ...]
    alternatives: tuple[Alternative, ...]
    variables: Mapping[str, Variable] = field(repr=False)
    maximized: bool = False
    notes: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """Every value at the optimum, in base units."""
        return self.resolution.values

    def to_data(self) -> dict[str, Any]:
        """The optimum as plain data, every value in its variable's display unit."""
        return {
            "target": self.target.name,
            "value": self.target.shown(self.value),
            "unit": self.target.display.text,
            "maximized": self.maximized,
            "choices": self._shown(self.choices),
            **data_of(self, "method points evaluated feasible undefined excluded"),
            "binding": [binding.to_data(self.target) for binding in self.binding],
            "violated": [verdict.to_data() for verdict in self.resolution.violated],
            "unknown": [verdict.to_data() for verdict in self.unknown],
            "alternatives": [
                {
                    "value": self.target.shown(alternative.value),
                    "choices": self._shown(alternative.choices),
                }
                for alternative in self.alternatives
            ],
            "notes": list(self.notes),
        }

    def _shown(self, choices: Chosen) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name, value in choices.items():
            if isinstance(value, str):
                rows.append({"name": name, "value": value, "unit": None})
            else:
                variable = self.variables[name]
                shown = variable.shown(value)
                rows.append({"name": name, "value": shown, "unit": variable.display.text})
        return rows
