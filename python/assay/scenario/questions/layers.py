"""The layers of the stack, what crosses their borders, and what one root would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from assay import stack
from assay.answers import Answer
from assay.keywords import takes
from assay.model.auditing.atlas import Crossing, Layer, Pressure, crossings, layers, pressure
from assay.scenario import built_in
from assay.scenario.question import GIVEN, Given, read_question
from assay.scenario.roots import RootReport, report_root


@dataclass(frozen=True)
class AtlasAnswer(Answer):
    """Layers from the site down to the transistor, and how a target depends on them."""

    layers: Sequence[Layer]
    crossings: Sequence[Crossing]
    pressure: Pressure | None


@takes(GIVEN)
def atlas(target: str | None = None, **given: Unpack[Given]) -> AtlasAnswer:
    """List the layers of the stack and their borders.

    With a target, how many variables it depends on in each layer; with a scenario, also how many of
    its inputs have no value.
    """
    question = read_question(**given)
    registry = question.registry
    known = question.inputs.values if question.given else None
    return AtlasAnswer(
        layers(registry),
        crossings(registry),
        None if target is None else pressure(registry, target, known),
        notes=question.notes,
    )


@dataclass(frozen=True)
class RootAnswer(Answer):
    """Why the model ends at a root, what depends on it, and what gives it a value."""

    root: RootReport

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return self.root.to_data()


def root(name: str) -> RootAnswer:
    """Say what it would take to resolve a root."""
    registry = stack.registry()
    registry.variable(name)
    presets = [built_in.preset(preset) for preset in built_in.presets()]
    return RootAnswer(report_root(registry, name, presets))
