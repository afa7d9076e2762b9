"""All targets of scenarios: their values and issues, and audits of what the scenarios state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.answers import Answer, Progress, silent
from assay.catalog.sourced_value import SourcedValue
from assay.errors import AssayError, CheckFailedError, EvaluationError, MissingInputsError
from assay.plurals import count
from assay.scenario import built_in
from assay.scenario.audit import ScenarioAudit, audit_scenario
from assay.scenario.given_values import ON_COMMAND_LINE, with_stated_forms
from assay.scenario.includes import include
from assay.scenario.named_scenario import Preset
from assay.scenario.question import Pairs, conflict_error, each_of, find_preset, read_pairs
from assay.scenario.report import ScenarioReport, TargetReport


@dataclass(frozen=True)
class ScenarioReportAnswer(Answer):
    """A report on the targets of each scenario."""

    reports: Sequence[ScenarioReport]

    def to_json(self) -> dict[str, Any]:
        """The reports as JSON data."""
        return {
            "ok": sum(report.ok for report in self.reports),
            "of": sum(len(report.targets) for report in self.reports),
            "reports": [report.to_data() for report in self.reports],
        }


def scenario_report(
    presets: str | Sequence[str] = (),
    *,
    targets: str | Sequence[str] = (),
    assign: Pairs = None,
    variant: Pairs = None,
    includes: Sequence[str] | None = None,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    progress: Progress = silent,
) -> ScenarioReportAnswer:
    """Resolve every target of scenarios, by default of all built-in ones, and report on each.

    One scenario or target may be its name alone. `targets` replaces those of the scenarios.
    """
    chosen = [_changed(preset, assign, variant, includes) for preset in _chosen(presets)]
    asked = _labeled(chosen[0], each_of(targets)) if targets else None
    reports = []
    for position, preset in enumerate(chosen, start=1):
        progress(f"reporting on {preset.name}, {position} of {len(chosen)}")
        reports.append(preset.evaluate_targets(asked))
    problem = target_problem(
        [target for report in reports for target in report.targets],
        fail_on_violated=fail_on_violated,
        allow_conflicts=allow_conflicts,
    )
    return ScenarioReportAnswer(reports, problem=problem)


def _chosen(names: str | Sequence[str]) -> list[Preset]:
    return [find_preset(name) for name in dict.fromkeys(each_of(names)) or built_in.presets()]


def _labeled(preset: Preset, targets: Sequence[str]) -> list[tuple[str, str]]:
    """Variables as targets, each under its meaning."""
    return [(preset.registry.variable(name).meaning, name) for name in targets]


def _changed(
    preset: Preset, assign: Pairs, variant: Pairs, includes: Sequence[str] | None
) -> Preset:
    """The scenario with further entries, values and variants."""
    if includes:
        preset = preset.with_includes([include(path, preset.registry) for path in includes])
    assigned = read_pairs("--assign", 'name="value unit"', assign)
    variants = read_pairs("--variant", "variable=relation", variant)
    assigned, variants = with_stated_forms(assigned, variants, preset.registry)
    values = {
        name: SourcedValue(text, ON_COMMAND_LINE, "assumed") for name, text in assigned.items()
    }
    return preset.with_values(values, variants) if values or variants else preset


def target_problem(
    targets: Sequence[TargetReport], *, fail_on_violated: bool, allow_conflicts: bool
) -> AssayError | None:
    """The most severe problem of any target."""
    for target in targets:
        if target.status == "error":
            return EvaluationError(f"{target.target}: {target.issues[0]}")
    resolutions = [target.resolution for target in targets if target.resolution]
    if not allow_conflicts:
        for resolution in resolutions:
            if resolution.conflicts:
                return conflict_error(resolution.conflicts)
    gaps = dict.fromkeys(gap.variable.name for r in resolutions for gap in r.missing)
    if gaps:
        without = sum(resolution.value is None for resolution in resolutions)
        return MissingInputsError(
            f"{count(without, 'target')} without a value: {count(len(gaps), 'input')} missing",
            gaps,
            "add them to the scenario's [values], each with a source",
        )
    violated = dict.fromkeys(verdict.name for r in resolutions for verdict in r.violated)
    if fail_on_violated and violated:
        return CheckFailedError(f"violated: {', '.join(violated)}")
    return None


@dataclass(frozen=True)
class ScenarioAuditAnswer(Answer):
    """An audit of each scenario."""

    audits: Sequence[ScenarioAudit]

    def to_json(self) -> dict[str, Any]:
        """The audits as JSON data."""
        return {"audits": [audit.to_data() for audit in self.audits]}


def scenario_audit(
    presets: str | Sequence[str] = (), progress: Progress = silent
) -> ScenarioAuditAnswer:
    """Audit the values of scenarios: by kind, unused ones, and targets without a value."""
    chosen = _chosen(presets)
    audits = []
    for position, preset in enumerate(chosen, start=1):
        progress(f"auditing {preset.name}, {position} of {len(chosen)}")
        audits.append(audit_scenario(preset))
    failing = [audit.preset.name for audit in audits if not audit.ok]
    problem = None
    if failing:
        problem = CheckFailedError(
            f"targets with issues in {', '.join(failing)}",
            f"assay scenario-report {failing[0]} lists them",
        )
    return ScenarioAuditAnswer(audits, problem=problem)
