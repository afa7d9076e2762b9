"""What it would take to resolve a root: who gives it a value today, and what is left to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from assay.catalog import constants, engines, entries
from assay.catalog.models import GROUP as MODELS, CatalogModel, all_models
from assay.errors import InputError
from assay.model.auditing.debt import UNDECLARED
from assay.model.language.variables import Constant, Variable
from assay.model.registry import Registry
from assay.scenario.named_scenario import Preset

BOUNDARY_STEPS: Final = {
    "decompose": "declare a relation that computes it from a further layer",
    "needs-source": "find a published or measured value, and cite it",
    "primitive": "take it from a data sheet, a standard or a measurement",
    "scenario": "choose it: it is a decision of the scenario",
    UNDECLARED: "declare why the model ends there",
}
"""What resolves a root, by its boundary."""


class GivenValue(NamedTuple):
    """A value that a preset gives a root, and where it comes from."""

    preset: str
    text: str
    kind: str
    source: str

    def to_data(self) -> dict[str, str]:
        """The value as plain data."""
        return self._asdict()


class CatalogGroup(NamedTuple):
    """A group of the catalog whose entries give a root a value."""

    group: str
    entries: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """The group as plain data."""
        return {"group": self.group, "entries": list(self.entries)}


@dataclass(frozen=True, slots=True)
class RootReport:
    """A root: why the model ends there, what depends on it, who gives it, what is left to do."""

    variable: Variable
    boundary: str
    dependents: int
    targets: tuple[str, ...]
    used_by: tuple[str, ...]
    presets: tuple[GivenValue, ...]
    groups: tuple[CatalogGroup, ...]
    steps: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "name": self.variable.name, "symbol": self.variable.symbol,
            "meaning": self.variable.meaning, "unit": self.variable.display.text,
            "scope": self.variable.scope, "family": self.variable.family,
            "boundary": self.boundary, "dependents": self.dependents,
            "targets": list(self.targets), "used_by": list(self.used_by),
            "presets": [given.to_data() for given in self.presets],
            "catalog": [group.to_data() for group in self.groups],
            "steps": list(self.steps),
        }  # fmt: skip


def report_root(registry: Registry, name: str, presets: Iterable[Preset]) -> RootReport:
    """What it would take to resolve one root."""
    variable = registry.variable(name)
    if isinstance(variable, Constant) or not variable.is_root:
        raise InputError(
            f"{name}: expected a root, got a variable that the model computes",
            f"assay explain {name} shows from what",
        )
    reached = {name} | registry.graph.descendants(name)
    given = tuple(
        GivenValue(preset.name, value.text, value.kind, value.source)
        for preset in presets
        if (value := preset.assignments.get(name)) is not None
    )
    groups = tuple(_groups(name))
    boundary = variable.boundary or UNDECLARED
    return RootReport(
        variable=variable,
        boundary=boundary,
        dependents=len(registry.graph.downstream_relations(name)),
        targets=tuple(target for target in registry.targets if target in reached),
        used_by=tuple(relation.name for relation in registry.graph.users[name]),
        presets=given,
        groups=groups,
        steps=tuple(_steps(variable, boundary, given, groups)),
    )


def _groups(name: str) -> Iterable[CatalogGroup]:
    for group in entries.groups():
        members = all_models() if group == MODELS else entries.entries(group)
        names = tuple(member.name for member in members if name in _values(member))
        if names:
            yield CatalogGroup(group, names)
    calibrated = tuple(n for n in constants.calibrated() if name in constants.given(n))
    if calibrated:
        yield CatalogGroup("calibration", calibrated)
    served = tuple(n for n in engines.names() if name in engines.given(n))
    if served:
        yield CatalogGroup("engines", served)


def _values(member: CatalogModel | entries.CatalogEntry) -> Collection[str]:
    return member.entry.values if isinstance(member, CatalogModel) else member.values


def _steps(
    variable: Variable, boundary: str, given: Iterable[GivenValue], groups: Iterable[CatalogGroup]
) -> Iterable[str]:
    unit = "" if variable.display.text == "1" else f" {variable.display.text}"
    yield f'assume a value: --assign {variable.name}="VALUE{unit}"'
    for group in groups:
        if group.group == "calibration":
            yield f"include an accelerator with fitted constants: {len(group.entries)} have one"
        else:
            yield f"include an entry: --with {group.group}/{group.entries[0]}"
    assumed = [value.preset for value in given if value.kind == "assumed"]
    if assumed:
        yield f"replace the assumption of {', '.join(assumed)} by a sourced value"
    yield BOUNDARY_STEPS[boundary]
