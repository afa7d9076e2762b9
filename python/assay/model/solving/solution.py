"""The result of solving: values of the unknowns, residuals and verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay.answers import data_of
from assay.model.language.variables import Variable
from assay.model.resolving.resolution import ConditionVerdict, Resolution
from assay.model.solving.whole import WholeNeighbor


@dataclass(frozen=True, slots=True)
class SolvedStage:
    """Unknowns solved together: from which equations, how, and how well.

    `misfit` is the largest scaled residual of an equation (see `EquationState`).
    """

    unknowns: tuple[str, ...]
    equations: tuple[str, ...]
    method: str
    iterations: int
    misfit: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Values of the unknowns, in base units, at which every requirement is met.

    `resolutions` holds each required variable as resolved from the solution; `others` holds
    further solutions, found from other starts. Where an unknown is a count and the solution is no
    whole number, `whole` holds the neighbors on either side.
    """

    unknowns: tuple[Variable, ...]
    values: dict[str, float]
    required: dict[str, float]
    resolutions: dict[str, Resolution] = field(repr=False)
    stages: tuple[SolvedStage, ...]
    others: tuple[dict[str, float], ...] = ()
    whole: tuple[WholeNeighbor, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def residuals(self) -> dict[str, float]:
        """Residual of each required variable: computed less required value."""
        return {
            name: resolution.require_value() - self.required[name]
            for name, resolution in self.resolutions.items()
        }

    @property
    def iterations(self) -> int:
        """Iterations of all stages together."""
        return sum(stage.iterations for stage in self.stages)

    @property
    def method(self) -> str:
        """How the stages were solved, each method once."""
        return ", ".join(dict.fromkeys(stage.method for stage in self.stages))

    @property
    def constraints(self) -> list[ConditionVerdict]:
        """Verdicts on the constraints that the solution determines, each once."""
        verdicts = [v for r in self.resolutions.values() for v in r.constraints]
        return list({verdict.name: verdict for verdict in verdicts}.values())

    @property
    def violated(self) -> list[str]:
        """Constraints that do not hold: at the solution, or at every whole neighbor of it."""
        if self.whole:
            first, *others = (neighbor.violated for neighbor in self.whole)
            return [name for name in first if all(name in other for other in others)]
        return [verdict.name for verdict in self.constraints if verdict.status == "false"]

    @property
    def unjudged(self) -> list[ConditionVerdict]:
        """Constraints that lack inputs and lie on no cone of a required variable, each once."""
        named = {verdict.name for verdict in self.constraints}
        verdicts = [v for r in self.resolutions.values() for v in r.unjudged]
        return list({v.name: v for v in verdicts if v.name not in named}.values())

    @property
    def validity(self) -> list[ConditionVerdict]:
        """Verdicts on the approximations in use, each once."""
        verdicts = [v for r in self.resolutions.values() for v in r.validity]
        return list({verdict.name: verdict for verdict in verdicts}.values())

    def to_data(self) -> dict[str, Any]:
        """The solution as plain data, every value in its variable's display unit."""
        return {
            "unknowns": [_shown(variable, self.values) for variable in self.unknowns],
            "required": [
                {
                    "name": name,
                    "required": resolution.variable.shown(self.required[name]),
                    "value": resolution.variable.shown(resolution.require_value()),
                    "unit": resolution.variable.display.text,
                }
                for name, resolution in self.resolutions.items()
            ],
            **data_of(self, "stages method iterations"),
            "others": [
                [_shown(variable, other) for variable in self.unknowns] for other in self.others
            ],
            **data_of(self, "whole constraints unjudged validity notes"),
        }


def _shown(variable: Variable, values: dict[str, float]) -> dict[str, Any]:
    return {
        "name": variable.name,
        "value": variable.shown(values[variable.name]),
        "unit": variable.display.text,
    }
