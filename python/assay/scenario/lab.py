"""A scenario of the lab as plain data: what a page shows of it and feeds to the tape of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.catalog import engines, entries
from assay.model.selection import check_variants, find_variant
from assay.model.tapes.draws import KIND_NUMBERS
from assay.model.uncertainty.correlation import correlated_blocks
from assay.scenario import built_in
from assay.scenario.includes import include
from assay.scenario.named_scenario import Preset

if TYPE_CHECKING:
    from assay.model.registry import Registry


def chosen_scenario(
    registry: Registry, preset: str, paths: Sequence[str], variants: Mapping[str, str]
) -> Preset:
    """A built-in scenario, or an empty one, with catalog entries and variants that replace its own."""
    scenario = built_in.preset(preset) if preset else Preset("lab", "", registry, {})
    check_variants(registry, variants)
    if paths:
        scenario = scenario.with_includes([include(path, registry) for path in paths])
    return scenario.with_values({}, variants) if variants else scenario


def scenario_facts(scenario: Preset) -> dict[str, Any]:
    """A scenario with every value in base units, for a page."""
    registry = scenario.registry
    return {
        "values": {name: _value(scenario, name) for name in scenario.assignments},
        "variants": {
            name: {"relation": text, "number": _number(registry, name, text)}
            for name, text in scenario.variants.items()
        },
        "included": [
            {
                "path": part.path,
                "title": part.title,
                "group": part.group,
                "names": sorted(part.values),
                "drop": sorted(include(part.path, registry).values.keys() - part.values.keys()),
            }
            for part in scenario.included
        ],
        "own": sorted(scenario.own),
        "notes": list(scenario.notes),
        "targets": [{"label": label, "variable": name} for label, name in scenario.targets],
        "accelerator": scenario.accelerator,
        "factors": _factors(scenario),
    }


def _value(scenario: Preset, name: str) -> dict[str, Any]:
    stated, inputs = scenario.assignments[name], scenario.inputs
    facts: dict[str, Any] = {
        "value": inputs.values[name], "text": stated.text, "kind": stated.kind,
        "source": stated.source,
    }  # fmt: skip
    distribution = inputs.distributions.get(name)
    if distribution is not None and distribution.kind in KIND_NUMBERS:
        facts["draw"] = [KIND_NUMBERS[distribution.kind], *distribution.parameters]
        if stated.number is None and stated.uncertainty:
            facts["uncertainty"] = stated.uncertainty
    return facts


def _number(registry: Registry, name: str, text: str) -> int:
    variable = registry.variables[name]
    return variable.defining_equations.index(find_variant(variable, text)) + 1


def _factors(scenario: Preset) -> dict[str, list[list[Any]]]:
    """For each correlated input the independent scores that its own is a sum of, with weights."""
    names = sorted(scenario.inputs.distributions)
    factors = {}
    for block in correlated_blocks(names, scenario.correlations):
        members = [names[position] for position in block.positions]
        for name, row in zip(members, block.factor, strict=True):
            pairs = zip(members, row, strict=True)
            factors[name] = [[member, weight] for member, weight in pairs if weight]
    return factors


def offered_entries() -> dict[str, list[list[str]]]:
    """Every catalog entry that a scenario can include, by group: path and title."""
    return {group: [list(pair) for pair in pairs] for group, pairs in _entries()}


def _entries() -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    for group in entries.groups():
        if group == "models":
            from assay.catalog import models

            yield group, ((f"models/{m.name}", "") for m in models.all_models())
        else:
            yield group, ((entry.path, entry.title) for entry in entries.entries(group))
    yield "engines", ((f"engines/{name}", "") for name in engines.names())
