"""Presets: named scenarios whose every value has a source, and reports on their targets."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError, InputError
from assay.model.resolving.resolution import Resolution

if TYPE_CHECKING:
    from assay.model.registry import Registry

ASSIGNMENT_KINDS = ("spec", "measured", "published", "assumed")
_SECTIONS = ("name", "description", "defaults", "values", "variants", "targets")


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value in a scenario: its text with unit, where it comes from, and how it was got."""

    text: str
    source: str
    kind: str


@dataclass(frozen=True, slots=True)
class TargetReport:
    """What became of one target: `ok`, `issues` (with which), or `error`."""

    label: str
    target: str
    status: str
    issues: tuple[str, ...]
    resolution: Resolution | None

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        shown = self.resolution.to_data() if self.resolution else {}
        return {
            "label": self.label, "target": self.target, "status": self.status,
            "value": shown.get("value"), "unit": shown.get("unit"), "lo": shown.get("lo"),
            "hi": shown.get("hi"), "issues": list(self.issues), "missing": shown.get("missing", []),
            "constraints": shown.get("constraints", []), "conflicts": shown.get("conflicts", []),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScenarioReport:
    """All targets of a scenario."""

    preset: str
    targets: tuple[TargetReport, ...]

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

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "preset": self.preset, "ok": self.ok, "of": len(self.targets),
            "targets": [report.to_data() for report in self.targets],
            "missing_families": self.missing_families,
        }  # fmt: skip


@dataclass(frozen=True)
class Preset:
    """A named scenario over a registry."""

    name: str
    description: str
    registry: Registry = field(repr=False)
    assignments: dict[str, Assignment]
    variants: dict[str, str] = field(default_factory=dict)
    targets: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_file(cls, path: Path, registry: Registry) -> Preset:
        """Read a scenario file (TOML); names and units of its values are checked at once."""
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"scenario file {path.name} cannot be read: {error}") from None
        try:
            return cls._from_data(path.stem, data, registry)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"scenario file {path.name} is malformed: {error!r}",
                "it needs name, [values] with a source each, and [[targets]] with label and variable",
            ) from None

    @classmethod
    def _from_data(cls, name: str, data: dict[str, Any], registry: Registry) -> Preset:
        if strangers := [key for key in data if key not in _SECTIONS]:
            raise InputError(
                f'scenario {name}: unknown entry "{strangers[0]}"',
                f"a scenario has: {', '.join(_SECTIONS)}",
            )
        defaults = data.get("defaults", {})
        assignments: dict[str, Assignment] = {}
        for variable, item in data.get("values", {}).items():
            facts = {**defaults, **(item if isinstance(item, dict) else {"value": item})}
            if "source" not in facts or facts.get("kind") not in ASSIGNMENT_KINDS:
                raise InputError(
                    f"scenario {name}: {variable} needs a source and a kind",
                    f"kinds: {', '.join(ASSIGNMENT_KINDS)}",
                )
            source = _text(f"source of {variable}", facts["source"])
            assignments[variable] = Assignment(str(facts["value"]), source, facts["kind"])
        targets = [(t["label"], t["variable"]) for t in data.get("targets", ())]
        preset = cls(
            name=_text("name", data.get("name", name)),
            description=_text("description", data.get("description", "")),
            registry=registry,
            assignments=assignments,
            variants={n: _text(f"variant of {n}", v) for n, v in data.get("variants", {}).items()},
            targets=tuple((_text("label", label), _text("target", v)) for label, v in targets),
        )
        from assay.model.inputs import read_inputs

        read_inputs(registry, preset.given)
        return preset

    @property
    def given(self) -> dict[str, str]:
        """The values as `resolve` takes them."""
        return {name: assignment.text for name, assignment in self.assignments.items()}

    def resolve(self, target: str) -> Resolution:
        """Resolve a target in this scenario."""
        return self.registry.resolve(target, self.given, self.variants)

    def evaluate_targets(self, targets: Sequence[tuple[str, str]] | None = None) -> ScenarioReport:
        """Resolve several targets and report on each; by default the scenario's own."""
        wanted = self.targets if targets is None else targets
        return ScenarioReport(
            self.name, tuple(self._report(label, target) for label, target in wanted)
        )

    def _report(self, label: str, target: str) -> TargetReport:
        try:
            resolution = self.resolve(target)
        except AssayError as error:
            return TargetReport(label, target, "error", (error.message,), None)
        issues = [f"missing input {gap.variable.name}" for gap in resolution.missing]
        issues += [f"violated constraint {verdict.name}" for verdict in resolution.violated]
        issues += [
            f"invalid approximation {v.name}" for v in resolution.validity if v.status == "false"
        ]
        issues += [f"conflict in {conflict.variable.name}" for conflict in resolution.conflicts]
        return TargetReport(label, target, "issues" if issues else "ok", tuple(issues), resolution)


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"scenario: expected a text as {what}, got {value!r}")
    return value
