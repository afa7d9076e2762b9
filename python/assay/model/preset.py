"""Presets: named scenarios whose every value has a source, and reports on their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError
from assay.model.resolving.resolution import Resolution
from assay.model.values import KINDS as ASSIGNMENT_KINDS
from assay.model.values import Value as Assignment

if TYPE_CHECKING:
    from assay.catalog.includes import Included
    from assay.model.registry import Registry

__all__ = ["ASSIGNMENT_KINDS", "Assignment", "Preset", "ScenarioReport", "TargetReport"]


@dataclass(frozen=True, slots=True)
class TargetReport:
    """What became of one target: `ok`, `issues` (with which), or `error`.

    `variance_by_kind` divides the variance of the target among the kinds of its values, and is
    empty where nothing uncertain reaches it.
    """

    label: str
    target: str
    status: str
    issues: tuple[str, ...]
    resolution: Resolution | None
    variance_by_kind: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def is_uncertain(self) -> bool:
        """Whether the target has an interval of some width."""
        found = self.resolution
        return found is not None and found.value is not None and found.lower != found.upper

    @property
    def assumed_share(self) -> float | None:
        """Share of the variance that rests on assumed values."""
        return self.variance_by_kind.get("assumed", 0.0) if self.variance_by_kind else None

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        shown = self.resolution.to_data() if self.resolution else {}
        return {
            "label": self.label, "target": self.target, "status": self.status,
            "value": shown.get("value"), "unit": shown.get("unit"), "lo": shown.get("lo"),
            "hi": shown.get("hi"), "issues": list(self.issues), "missing": shown.get("missing", []),
            "constraints": shown.get("constraints", []), "conflicts": shown.get("conflicts", []),
            "assumed_share": self.assumed_share, "variance_by_kind": dict(self.variance_by_kind),
            "remarks": list(self.remarks),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScenarioReport:
    """All targets of a scenario, and remarks on what it includes."""

    preset: str
    targets: tuple[TargetReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> int:
        """Number of targets without any issue."""
        return sum(report.status == "ok" for report in self.targets)

    @property
    def missing_families(self) -> dict[str, list[str]]:
        """Missing inputs of all targets, by family."""
        families: dict[str, dict[str, None]] = {}
        for report in self.targets:
            for gap in report.resolution.missing if report.resolution else ():
                families.setdefault(gap.variable.family, {})[gap.variable.name] = None
        return {family: list(names) for family, names in families.items()}

    @property
    def violated(self) -> list[str]:
        """Constraints that some target violates, each once."""
        names = [
            verdict.name
            for report in self.targets
            for verdict in (report.resolution.violated if report.resolution else ())
        ]
        return list(dict.fromkeys(names))

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "preset": self.preset, "ok": self.ok, "of": len(self.targets),
            "targets": [report.to_data() for report in self.targets],
            "missing_families": self.missing_families, "violated": self.violated,
            "notes": list(self.notes),
        }  # fmt: skip


@dataclass(frozen=True)
class Preset:
    """A named scenario over a registry.

    `assignments` holds what its includes give, overridden by what it states itself (`own`).
    """

    name: str
    description: str
    registry: Registry = field(repr=False)
    assignments: dict[str, Assignment]
    variants: dict[str, str] = field(default_factory=dict)
    targets: tuple[tuple[str, str], ...] = ()
    included: tuple[Included, ...] = field(default=(), repr=False)
    own: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_file(cls, path: Path, registry: Registry) -> Preset:
        """Read a scenario file (TOML); names and units of its values are checked at once."""
        from assay.model.scenario_file import read_scenario

        return read_scenario(path, registry)

    @property
    def given(self) -> dict[str, str]:
        """The values as `resolve` takes them: intervals where they are uncertain."""
        return {name: assignment.given for name, assignment in self.assignments.items()}

    def states(self, name: str) -> bool:
        """Whether the scenario gives this value itself, not through an include."""
        return name in self.assignments and (name in self.own or not self.included)

    def resolve(self, target: str) -> Resolution:
        """Resolve a target in this scenario."""
        return self.registry.resolve(target, self.given, self.variants)

    def with_includes(self, parts: Sequence[Included]) -> Preset:
        """The scenario with further includes, each in the place of those of its group."""
        from assay.catalog.includes import merge

        groups = {part.group for part in parts}
        included = (*(part for part in self.included if part.group not in groups), *parts)
        values, clashes = merge(included)
        replaced = {name for part in parts for name in part.values}
        own = {name: self.assignments[name] for name in self.own if name not in replaced}
        remarks = [note for part in included for note in part.notes]
        left = {name for part in self.included if part.group in groups for name in part.variants}
        variants = {name: text for name, text in self.variants.items() if name not in left}
        for part in included:
            variants |= part.variants
        return replace(
            self,
            assignments={**values, **own},
            variants=variants,
            included=included,
            own=frozenset(own),
            notes=(*remarks, *clashes),
        )

    def evaluate_targets(
        self, targets: Sequence[tuple[str, str]] | None = None, *, intervals: bool = True
    ) -> ScenarioReport:
        """Resolve several targets and report on each; by default the scenario's own.

        Without `intervals`, uncertain values of the catalog are taken as they stand, which is
        much faster where only the status of targets is asked for.
        """
        wanted = self.targets if targets is None else targets
        reports = [self._report(label, target, intervals) for label, target in wanted]
        if intervals:
            reports = self._with_variance(reports)
        return ScenarioReport(self.name, tuple(reports), self.notes)

    def _with_variance(self, reports: list[TargetReport]) -> list[TargetReport]:
        uncertain = [report.target for report in reports if report.is_uncertain]
        if not uncertain:
            return reports
        try:
            shares = self.variance_by_kind(list(dict.fromkeys(uncertain)))
        except AssayError as error:
            lack = f"shares of the variance are not known: {error.message}"
            return [
                replace(report, remarks=(lack,)) if report.is_uncertain else report
                for report in reports
            ]
        return [
            replace(report, variance_by_kind=shares[report.target])
            if report.is_uncertain
            else report
            for report in reports
        ]

    def variance_by_kind(self, targets: Sequence[str]) -> dict[str, dict[str, float]]:
        """Share of each target's variance that rests on values of each kind, largest first.

        What is drawn by a stochastic relation counts as `stochastic`. Shares are total-order
        ones, so those of kinds that act together may sum to more than one.
        """
        from assay.model.uncertainty.kinds import shares_by_group

        drawn = {
            relation.variable: "stochastic"
            for relation in self.registry.relations.values()
            if relation.kind == "stochastic"
        }
        kinds = {name: assignment.kind for name, assignment in self.assignments.items()}
        return shares_by_group(
            self.registry, targets, self.given, self.variants, {**drawn, **kinds}
        )

    def _report(self, label: str, target: str, intervals: bool) -> TargetReport:
        plain = {name: assignment.text for name, assignment in self.assignments.items()}
        given = self.given if intervals else plain
        try:
            resolution = self.registry.resolve(target, given, self.variants)
        except AssayError as error:
            return TargetReport(label, target, "error", (error.message,), None)
        issues = [f"missing input {gap.variable.name}" for gap in resolution.missing]
        issues += [f"violated constraint {verdict.name}" for verdict in resolution.violated]
        issues += [
            f"invalid approximation {v.name}" for v in resolution.validity if v.status == "false"
        ]
        issues += [f"conflict in {conflict.variable.name}" for conflict in resolution.conflicts]
        status = "issues" if issues else "ok"
        return TargetReport(label, target, status, tuple(issues), resolution)
