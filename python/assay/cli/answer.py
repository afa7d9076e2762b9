"""`assay resolve` and `assay explain`: a value, and its provenance."""

from collections.abc import Iterator
from typing import Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Report, facts, table
from assay.cli.undetermined import verdict_report
from assay.cli.verdicts import (
    answer_line,
    answer_text,
    constraint_summary,
    details,
    diagnostic_lines,
    missing_family_table,
    missing_table,
    trace_table,
    verdict_table,
    violation_lines,
)
from assay.model.resolving.resolution import TargetValue
from assay.scenario.questions.remarks import remarks
from assay.scenario.questions.resolving import MAX_FURTHER_TARGETS, ExplainAnswer, explain, resolve

_STYLES: Final = {
    "name": styles.NAME, "value": styles.VALUE, "guide": styles.FAINT, "equation": "", "mark": styles.FAINT,
    "bad": styles.BAD, "good": styles.GOOD, "plain": "",
}  # fmt: skip


def resolve_command(
    target: options.Target,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    correlate: options.Correlate = None,
    constraints: Annotated[
        bool, option("--constraints", "List the constraints and their status.")
    ] = False,
    missing: Annotated[
        bool, option("--missing", "List missing inputs and the variables that need them.")
    ] = False,
    missing_families: Annotated[
        bool, option("--missing-families", "List missing inputs by family.")
    ] = False,
    diagnostics: Annotated[
        bool,
        option(
            "--diagnostics",
            "List constraints, validity of approximations, switches and conflicts, and what "
            "could not be judged.",
        ),
    ] = False,
    trace: Annotated[
        bool, option("--trace", "List every value in the order of computation.")
    ] = False,
    no_switch: options.NoSwitch = False,
    no_interval: options.NoInterval = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Compute a variable from given values.

    `assay diff P P --target VARIABLE --set NAME="VALUE UNIT"` prints how far a change of scenario P
    moves it, and by what.
    """
    answer = resolve(
        target,
        switch=not no_switch,
        intervals=not no_interval,
        fail_on_violated=fail_on_violated,
        allow_conflicts=allow_conflicts,
        **options.given(preset, assign, variant, includes, model_config, correlate, offer),
    )
    resolution = answer.resolution

    def text(canvas: Canvas) -> Iterator[Line]:
        # What cannot run is said before what it would take.
        yield from violation_lines(resolution.constraints, canvas)
        yield answer_line(resolution)
        if resolution.missing:
            yield ""
            yield from missing_table(resolution.missing, canvas, in_full=missing)
        elif missing:
            yield "missing inputs: none"
        if missing_families:
            yield ""
            yield from missing_family_table(resolution.missing, canvas)
        if constraints or diagnostics:
            yield ""
            yield constraint_summary(resolution)
            yield from verdict_table("constraint", resolution.constraints, canvas)
            yield from verdict_table("approximation", resolution.validity, canvas)
        if diagnostics:
            yield ""
            yield from diagnostic_lines(resolution, canvas)
        if trace:
            yield ""
            yield from trace_table(resolution.trace, canvas)

    return verdict_report(answer, text, as_json, details=details(resolution))


def explain_command(
    target: options.Target,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    correlate: options.Correlate = None,
    depth: Annotated[
        int | None,
        option("--depth N", "Levels below the variable; by default as many as 100 entries allow."),
    ] = None,
    no_switch: options.NoSwitch = False,
    no_interval: options.NoInterval = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Print the provenance of a value as a tree.

    Each entry has its value, its equation, and the number of its source.
    """
    answer = explain(
        target,
        depth=depth,
        switch=not no_switch,
        intervals=not no_interval,
        fail_on_violated=fail_on_violated,
        allow_conflicts=allow_conflicts,
        **options.given(preset, assign, variant, includes, model_config, correlate, offer),
    )
    return verdict_report(
        answer,
        lambda canvas: provenance_lines(answer, canvas),
        as_json,
        details=details(answer.provenance.resolution),
    )


def provenance_lines(answer: ExplainAnswer, canvas: Canvas) -> Iterator[Line]:
    """The provenance as text: heading, tree, sources, further targets, missing inputs, notes."""
    from assay.model.resolving.provenance_text import print_sources, print_tree

    provenance, others = answer.provenance, answer.others
    resolution = provenance.resolution
    heading = resolution.variable.meaning
    if resolution.value is not None:
        heading += f": {answer_text(resolution)}"
    yield ((heading, styles.NAME),)
    yield from violation_lines(resolution.constraints, canvas)
    preset = answer.question.preset
    if preset is not None:
        scenario = f"{preset.name}: {preset.description}"
        yield from facts([("scenario", scenario)], canvas)
    yield ""
    guides = (canvas.branch, canvas.last, canvas.pass_by)
    for line in print_tree(provenance, canvas.width, guides):
        yield tuple((text, _STYLES[role]) for text, role in line)
    if provenance.is_cut:
        yield (
            (
                f"... cut at depth {provenance.depth}; --depth {provenance.depth + 1} shows more",
                styles.FAINT,
            ),
        )
    yield ""
    for line in print_sources(provenance, canvas.width):
        yield tuple((text, _STYLES[role]) for text, role in line)
    if others:
        yield ""
        rows = [
            (
                (other.variable.name, styles.NAME),
                (_value(other), styles.VALUE if other.value is not None else styles.BAD),
                label,
            )
            for label, other in others[:MAX_FURTHER_TARGETS]
        ]
        yield from table(("further target", "value", "meaning"), rows, canvas, right=(1,))
        if len(others) > MAX_FURTHER_TARGETS:
            yield ((f"and {len(others) - MAX_FURTHER_TARGETS} more targets", styles.FAINT),)
    if resolution.missing:
        yield ""
        yield from missing_table(resolution.missing, canvas)
    yield ""
    yield constraint_summary(resolution)
    for remark in remarks(resolution):
        yield (("note:", styles.WARN), f" {remark}")


def _value(target: TargetValue) -> str:
    if target.value is None:
        return f"unknown, {target.missing} inputs missing"
    return answer_text(target)
