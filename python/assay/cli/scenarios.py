"""`assay scenario-report` and `assay scenario-audit`: all targets of a scenario."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from assay.catalog.sourced_value import SourcedValue
from assay.cli import options
from assay.cli.output import (
    BAD,
    FAINT,
    GOOD,
    NAME,
    VALUE,
    WARN,
    Canvas,
    Line,
    Part,
    Report,
    count,
    facts,
    table,
    working,
)
from assay.cli.question import (
    ON_COMMAND_LINE,
    conflict_error,
    find_preset,
    read_pairs,
)
from assay.cli.verdicts import answer_text, missing_table, violation_lines
from assay.errors import AssayError, CheckFailedError, EvaluationError, MissingInputsError
from assay.scenario import built_in
from assay.scenario.audit import ScenarioAudit, audit_scenario
from assay.scenario.named_scenario import Preset
from assay.scenario.report import ScenarioReport, TargetReport

Presets = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PRESET]...", help="Names or .toml files; all scenarios if not given."),
]
_STATUS = {"ok": GOOD, "issues": WARN, "error": BAD}


def scenario_report_command(
    names: Presets = None,
    preset: options.PresetName = None,
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="VARIABLE",
            help="Report on this variable instead of the scenario's targets. May be repeated.",
        ),
    ] = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Resolve every target of a scenario and report on each."""
    chosen = [_changed(one, assign, variant, includes) for one in _chosen(names, preset)]
    asked = _asked(chosen[0], targets) if targets else None
    reports = [one.evaluate_targets(asked) for one in _progressing("reporting on", chosen)]

    def data() -> dict[str, Any]:
        return {
            "ok": sum(report.ok for report in reports),
            "of": sum(len(report.targets) for report in reports),
            "reports": [report.to_data() for report in reports],
        }

    def text(canvas: Canvas) -> Iterator[Line]:
        for position, report in enumerate(reports):
            if position:
                yield ""
            yield from report_lines(report, canvas)

    problem = report_problem(
        [target for report in reports for target in report.targets],
        fail_on_violated=fail_on_violated,
        allow_conflicts=allow_conflicts,
    )
    return Report(data, text, as_json, problem)


def _progressing(what: str, chosen: Sequence[Preset]) -> Iterator[Preset]:
    """The scenarios one by one, with progress."""
    with working(what) as progress:
        for position, one in enumerate(chosen, start=1):
            progress(f"{what} {one.name}, {position} of {len(chosen)}")
            yield one


def _changed(
    preset: Preset,
    assign: Sequence[str] | None,
    variant: Sequence[str] | None,
    includes: Sequence[str] | None,
) -> Preset:
    """The scenario with the entries, values and variants of the command line."""
    if includes:
        from assay.scenario.includes import include

        preset = preset.with_includes([include(path, preset.registry) for path in includes])
    values = {
        name: SourcedValue(text, ON_COMMAND_LINE, "assumed")
        for name, text in read_pairs("--assign", 'name="value unit"', assign).items()
    }
    variants = read_pairs("--variant", "variable=relation", variant)
    return preset.with_values(values, variants) if values or variants else preset


def _asked(preset: Preset, targets: Sequence[str]) -> list[tuple[str, str]]:
    """Targets of the command line, each under its meaning."""
    return [(preset.registry.variable(name).meaning, name) for name in targets]


def _chosen(names: Sequence[str] | None, presets: Sequence[str] | None) -> list[Preset]:
    preset_names = dict.fromkeys([*(names or ()), *(presets or ())])
    return [find_preset(name) for name in preset_names or built_in.presets()]


def report_lines(report: ScenarioReport, canvas: Canvas) -> Iterator[Line]:
    """A report as text: a table of targets, shares of the variance, notes, missing inputs."""
    yield ((report.preset, NAME), f": {report.ok} of {count(len(report.targets), 'target')} ok")
    yield ""
    rows: list[tuple[Part, ...]] = []
    for target in report.targets:
        value: Part = ("-", FAINT)
        if target.resolution is not None and target.resolution.value is not None:
            value = (answer_text(target.resolution), VALUE)
        rows.append((target.label, target.target, (target.status, _STATUS[target.status]), value))
    yield from table(("target", "variable", "status", "value"), rows, canvas)
    yield from violation_lines(report.violations, canvas)
    yield from _variance_lines(report)
    shared = {f"violated constraint {verdict.name}" for verdict in report.violations}
    for target in report.targets:
        for issue in (*target.issues, *target.remarks):
            if issue not in shared:
                yield (("note:", WARN), f" {target.label}: {issue}")
    gaps = {
        gap.variable.name: gap
        for target in report.targets
        if target.resolution
        for gap in target.resolution.missing
    }
    if gaps:
        yield ""
        yield from missing_table(list(gaps.values()), canvas)
        families = ", ".join(
            f"{family} ({len(names)})" for family, names in report.missing_families.items()
        )
        yield f"missing families: {families}"
    for note in report.notes:
        yield (("note:", WARN), f" {note}")


def _variance_lines(report: ScenarioReport) -> Iterator[Line]:
    """Share of each uncertain target's variance that comes from assumptions."""
    uncertain = [target for target in report.targets if target.assumed_share is not None]
    if uncertain:
        yield ""
    for target in uncertain:
        kinds = ", ".join(
            f"{kind} {share:.0%}"
            for kind, share in target.variance_by_kind.items()
            if share >= 0.005
        )
        shown = f"{target.assumed_share:.0%} of the variance comes from assumptions ({kinds})"
        yield f"{target.label}: {shown}"


def report_problem(
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


def scenario_audit_command(
    names: Presets = None,
    preset: options.PresetName = None,
    missing_families: Annotated[
        bool,
        typer.Option(
            "--missing-families", help="List missing inputs of further targets, by family."
        ),
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Audit the values of scenarios.

    Lists values by kind, unused values, and targets without a value. The exit code is 1 if a
    scenario has targets with issues.
    """
    audits = [audit_scenario(one) for one in _progressing("auditing", _chosen(names, preset))]

    def text(canvas: Canvas) -> Iterator[Line]:
        for position, audit in enumerate(audits):
            if position:
                yield ""
            yield from _audit_lines(audit, canvas, families=missing_families)

    failing = [audit.preset.name for audit in audits if not audit.ok]
    problem = None
    if failing:
        problem = CheckFailedError(
            f"targets with issues in {', '.join(failing)}",
            f"assay scenario-report {failing[0]} lists them",
        )
    return Report(lambda: {"audits": [audit.to_data() for audit in audits]}, text, as_json, problem)


def _audit_lines(audit: ScenarioAudit, canvas: Canvas, *, families: bool) -> Iterator[Line]:
    yield ((audit.preset.name, NAME),)
    yield ""
    kinds = ", ".join(f"{number} {kind}" for kind, number in audit.kinds.items() if number)
    declared = audit.declared
    yield from facts(
        (
            ("about", audit.preset.description),
            ("own targets", f"{audit.report.ok} of {len(audit.report.targets)} ok"),
            ("declared targets", f"{declared.ok} of {len(declared.targets)} ok"),
            ("values", f"{len(audit.preset.assignments)}: {kinds}"),
            ("pinned", ", ".join(audit.pinned) or "none"),
            ("unused", ", ".join(audit.unused) or "none"),
        ),
        canvas,
    )
    for target in audit.report.targets:
        for issue in target.issues:
            yield (("note:", WARN), f" {target.label}: {issue}")
    if families:
        yield ""
        rows = [
            ((family, NAME), str(len(gaps)), ", ".join(gap.variable.name for gap in gaps))
            for family, gaps in audit.missing_families.items()
        ]
        yield from table(("missing family", "inputs", "names"), rows, canvas, right=(1,)) or [
            "missing families: none"
        ]
