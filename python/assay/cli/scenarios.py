"""`assay scenario-report` and `assay scenario-audit`: all targets of a scenario."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, facts, report_of, table, working
from assay.cli.verdicts import answer_text, missing_table, violation_lines
from assay.scenario.audit import ScenarioAudit
from assay.scenario.questions.reporting import scenario_audit, scenario_report
from assay.scenario.report import ScenarioReport

Presets = Annotated[
    list[str] | None, argument("[PRESET]...", "Names or .toml files; all scenarios if not given.")
]
_STATUS = {"ok": styles.GOOD, "issues": styles.WARN, "error": styles.BAD}


def scenario_report_command(
    names: Presets = None,
    preset: options.PresetName = None,
    targets: Annotated[
        list[str] | None,
        option(
            "--target VARIABLE",
            "Report on this variable instead of the scenario's targets. May be repeated.",
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
    with working("reporting on") as progress:
        answer = scenario_report(
            [*(names or ()), *(preset or ())],
            targets=targets or (),
            assign=assign,
            variant=variant,
            includes=includes,
            fail_on_violated=fail_on_violated,
            allow_conflicts=allow_conflicts,
            progress=progress,
        )

    def text(canvas: Canvas) -> Iterator[Line]:
        for position, report in enumerate(answer.reports):
            if position:
                yield ""
            yield from report_lines(report, canvas)

    return report_of(answer, text, as_json)


def report_lines(report: ScenarioReport, canvas: Canvas) -> Iterator[Line]:
    """A report as text: a table of targets, shares of the variance, notes, missing inputs."""
    yield (
        (report.preset, styles.NAME),
        f": {report.ok} of {count(len(report.targets), 'target')} ok",
    )
    yield ""
    rows: list[tuple[Part, ...]] = []
    for target in report.targets:
        value: Part = ("-", styles.FAINT)
        if target.resolution is not None and target.resolution.value is not None:
            value = (answer_text(target.resolution), styles.VALUE)
        rows.append((target.label, target.target, (target.status, _STATUS[target.status]), value))
    yield from table(("target", "variable", "status", "value"), rows, canvas)
    yield from violation_lines(report.violations, canvas)
    yield from _variance_lines(report)
    shared = {f"violated constraint {verdict.name}" for verdict in report.violations}
    for target in report.targets:
        for issue in (*target.issues, *target.remarks):
            if issue not in shared:
                yield (("note:", styles.WARN), f" {target.label}: {issue}")
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
        yield (("note:", styles.WARN), f" {note}")


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


def scenario_audit_command(
    names: Presets = None,
    preset: options.PresetName = None,
    missing_families: Annotated[
        bool, option("--missing-families", "List missing inputs of further targets, by family.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Audit the values of scenarios.

    Lists values by kind, unused values, and targets without a value. The exit code is 1 if a
    scenario has targets with issues.
    """
    with working("auditing") as progress:
        answer = scenario_audit([*(names or ()), *(preset or ())], progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        for position, audit in enumerate(answer.audits):
            if position:
                yield ""
            yield from _audit_lines(audit, canvas, families=missing_families)

    return report_of(answer, text, as_json)


def _audit_lines(audit: ScenarioAudit, canvas: Canvas, *, families: bool) -> Iterator[Line]:
    yield ((audit.preset.name, styles.NAME),)
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
            yield (("note:", styles.WARN), f" {target.label}: {issue}")
    if families:
        yield ""
        rows = [
            ((family, styles.NAME), str(len(gaps)), ", ".join(gap.variable.name for gap in gaps))
            for family, gaps in audit.missing_families.items()
        ]
        yield from table(("missing family", "inputs", "names"), rows, canvas, right=(1,)) or [
            "missing families: none"
        ]
