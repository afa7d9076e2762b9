"""Audit of a scenario: kinds of its values, unused values, and targets without a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.catalog.sourced_value import KINDS
from assay.model.registry import Registry
from assay.model.resolving.resolution import MissingInput
from assay.scenario.named_scenario import Preset
from assay.scenario.report import ScenarioReport


@dataclass(frozen=True, slots=True)
class ScenarioAudit:
    """The audit of one scenario.

    `report` is on the scenario's own targets and `declared` on all targets that the model
    declares. `pinned` are given values that a relation defines as well; `unused` are values
    that the scenario states itself and no target of it depends on.
    """

    preset: Preset
    report: ScenarioReport
    declared: ScenarioReport
    pinned: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every target of the scenario resolves without an issue."""
        return self.report.ok == len(self.report.targets)

    @property
    def kinds(self) -> dict[str, int]:
        """How many values are of each kind, from specified to assumed."""
        kinds = [assignment.kind for assignment in self.preset.assignments.values()]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def missing_families(self) -> dict[str, list[MissingInput]]:
        """Missing inputs of all targets, by family, each once."""
        families: dict[str, dict[str, MissingInput]] = {}
        for report in (self.report, self.declared):
            for target in report.targets:
                for gap in target.resolution.missing if target.resolution else ():
                    members = families.setdefault(gap.variable.family, {})
                    members.setdefault(gap.variable.name, gap)
        return {family: list(gaps.values()) for family, gaps in families.items()}

    def to_data(self) -> dict[str, Any]:
        """The audit as plain data."""
        return {
            "preset": self.preset.name,
            "ok": self.report.ok,
            "of": len(self.report.targets),
            "targets": _statuses(self.report),
            "values": len(self.preset.assignments),
            "kinds": self.kinds,
            "pinned": list(self.pinned),
            "unused": list(self.unused),
            "declared_ok": self.declared.ok,
            "declared_of": len(self.declared.targets),
            "declared": _statuses(self.declared),
            "missing_families": {
                family: [gap.to_data() for gap in gaps]
                for family, gaps in self.missing_families.items()
            },
        }


def audit_scenario(preset: Preset) -> ScenarioAudit:
    """Audit one scenario against the model it is bound to."""
    registry = preset.registry
    report = preset.evaluate_targets(intervals=False)
    everything = [(name, name) for name in registry.targets]
    declared = preset.evaluate_targets(everything, intervals=False)
    used = _used_by(registry, report)
    return ScenarioAudit(
        preset=preset,
        report=report,
        declared=declared,
        pinned=tuple(n for n in preset.assignments if not registry.variables[n].is_root),
        unused=tuple(
            name for name in preset.assignments if name not in used and preset.states(name)
        ),
    )


def _used_by(registry: Registry, report: ScenarioReport) -> set[str]:
    """Variables that some target's value, or a condition on it, depends on."""
    used: set[str] = set()
    for target in report.targets:
        if target.resolution is None:
            # What a failing target would have used is all that it may depend on.
            if target.target in registry.variables:
                used |= {target.target} | registry.graph.ancestors(target.target)
            continue
        used.update(step.variable.name for step in target.resolution.trace)
        for verdict in (*target.resolution.constraints, *target.resolution.validity):
            relation = registry.relations.get(verdict.name)
            if relation is not None:
                for name in (*relation.inputs, *relation.part_variables("valid")):
                    used |= {name} | registry.graph.ancestors(name)
    return used


def _statuses(report: ScenarioReport) -> list[dict[str, Any]]:
    return [
        {
            "label": target.label,
            "target": target.target,
            "status": target.status,
            "issues": list(target.issues),
        }
        for target in report.targets
    ]
