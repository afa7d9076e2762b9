"""Scenarios and catalog entries as portable data: what a page needs to combine them by itself.

Values are in base units and refer to variables by name. Rules that are numbers or names, such as
what follows an accelerator or which formats exist, are written out too, so that they have one home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from assay.catalog import engines, entries
from assay.catalog.sourced_value import SourcedValue
from assay.errors import AssayError
from assay.model.inputs import read_inputs
from assay.model.language.distributions import Distribution
from assay.model.language.quantity import parse_quantity
from assay.model.registry import Registry
from assay.model.uncertainty.correlation import Correlations
from assay.scenario import built_in, companions, refusals
from assay.scenario.includes import Include, include
from assay.scenario.named_scenario import Preset

FORMAT: Final = 1
"""Raised whenever the meaning of the data changes."""


def portable_scenarios(registry: Registry) -> dict[str, Any]:
    """The built-in scenarios, every entry that one can include, and the rules that join them."""
    writer = _Writer(registry)
    presets = [Preset.from_file(path, registry) for path in built_in.presets().values()]
    groups = {group: list(paths) for group, paths in _paths()}
    found: dict[str, Any] = {}
    gaps: dict[str, str] = {}
    for path in (path for paths in groups.values() for path in paths):
        try:
            found[path] = writer.include(include(path, registry))
        except AssayError as error:
            # An entry that cannot be included is named with the reason, as the command line does.
            gaps[path] = error.message
    return {
        "format": FORMAT,
        "presets": [writer.preset(preset) for preset in presets],
        "groups": groups,
        "includes": found,
        "gaps": gaps,
        "companions": {
            "groups": list(companions.GROUPS),
            "priced": list(companions.PRICED),
            "judged": list(companions.JUDGED),
            "line_rate": companions.LINE_RATE,
        },
        "refusals": refusals.rules(),
        "sources": list(writer.sources),
    }


def _paths() -> Iterator[tuple[str, Iterable[str]]]:
    for group in entries.groups():
        if group == "models":
            from assay.catalog import models

            yield group, (f"models/{model.name}" for model in models.all_models())
        else:
            yield group, (entry.path for entry in entries.entries(group))
    yield "engines", (f"engines/{name}" for name in engines.names())


class _Writer:
    """Writes values with their sources numbered, equal ones once."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.sources: dict[str, int] = {}

    def preset(self, preset: Preset) -> dict[str, Any]:
        """A scenario: its own values, and its includes by path less the values that it drops."""
        full = {part.path: include(part.path, self.registry) for part in preset.included}
        return {
            "name": preset.name,
            "description": preset.description,
            "include": [
                {
                    "path": part.path,
                    "drop": sorted(full[part.path].values.keys() - part.values.keys()),
                }
                for part in preset.included
            ],
            "own": self._values({name: preset.assignments[name] for name in preset.own}),
            "variants": dict(preset.variants),
            "targets": [{"label": label, "variable": name} for label, name in preset.targets],
            "correlations": _pairs(preset.correlations),
        }

    def include(self, part: Include) -> dict[str, Any]:
        """One include, with the facts that joining it with others reads."""
        facts: dict[str, Any] = {
            "path": part.path, "title": part.title, "group": part.group,
            "values": self._values(part.values),
        }  # fmt: skip
        if part.notes:
            facts["notes"] = list(part.notes)
        if part.variants:
            facts["variants"] = dict(part.variants)
        if part.correlations:
            facts["correlations"] = _pairs(part.correlations)
        for name in ("companions", "accelerators"):
            if name in part.facts:
                facts[name] = part.facts[name]
        if (stated := part.facts.get("line_rate")) is not None:
            facts["line_rate"] = {"text": str(stated), "value": parse_quantity(str(stated)).value}
        return facts

    def _values(self, values: Mapping[str, SourcedValue]) -> dict[str, Any]:
        return {name: self._value(name, value) for name, value in values.items()}

    def _value(self, name: str, stated: SourcedValue) -> dict[str, Any]:
        variable = self.registry.variables[name]
        inputs = read_inputs(self.registry, {name: stated.read(variable)})
        facts: dict[str, Any] = {
            "value": inputs.values[name],
            "text": stated.text,
            "kind": stated.kind,
            "source": self.sources.setdefault(stated.source, len(self.sources)),
        }
        if name in inputs.distributions:
            facts["distribution"] = _distribution(inputs.distributions[name])
            if stated.number is None and stated.uncertainty:
                facts["uncertainty"] = stated.uncertainty
        return facts


def _distribution(distribution: Distribution) -> dict[str, Any]:
    return {"kind": distribution.kind, "parameters": list(distribution.parameters)}


def _pairs(correlations: Correlations) -> list[list[Any]]:
    return [[one, other, value] for (one, other), value in correlations.items()]
