"""Output that several commands share: missing inputs, constraints, conflicts, switches."""

from collections.abc import Iterator, Sequence

from assay.cli import styles
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, table, wrapped
from assay.cli.verbosity import is_verbose
from assay.model.resolving.resolution import (
    ConditionVerdict,
    MissingInput,
    Resolution,
    TargetValue,
    TraceStep,
)
from assay.scenario.questions.missing import MissingAnswer

STATUS = {
    "true": ("holds", styles.GOOD),
    "false": ("violated", styles.BAD),
    "unknown": ("unknown", styles.WARN),
}
MAX_CONDITION = 120
"""Characters of a condition; a longer one is shown by its meaning."""

MAX_MISSING = 20
"""Missing inputs that are listed; nobody gives hundreds one by one."""
MANY_MISSING = (
    "a scenario gives most of them: --preset NAME, of assay list --presets, or --with GROUP/NAME, "
    "of assay catalog list"
)

_COUNTED = {"true": "fulfilled", "false": "violated", "unknown": "unknown"}


def answer_line(resolution: Resolution) -> Line:
    """The target and its value, with the interval where there is one."""
    name: Part = (resolution.target, styles.NAME)
    if resolution.value is None:
        return (name, " = ", ("unknown", styles.BAD))
    shown = resolution.variable.figure(resolution.value, resolution.lower, resolution.upper)
    return (name, " = ", (shown.text, styles.VALUE), shown.interval)


def answer_text(answered: Resolution | TargetValue) -> str:
    """A value with the interval where there is one; empty without a value."""
    return answered.said


def missing_table(
    gaps: Sequence[MissingInput], canvas: Canvas, *, in_full: bool = False
) -> list[Line]:
    """Inputs without a value, those nearest to the target first.

    A long list begins with what to do about it and is cut, unless `--verbose`; `in_full` has all, with
    the boundary and the dependents.
    """
    if not in_full:
        shown = gaps if is_verbose() else gaps[:MAX_MISSING]
        rows = [
            (gap.variable.name, gap.variable.display.text, gap.variable.meaning) for gap in shown
        ]
        lines = table(("missing input", "unit", "meaning"), rows, canvas)
        if len(shown) == len(gaps):
            return lines
        left_out = f"{len(shown)} of {len(gaps):,} missing inputs; --verbose lists all"
        return [
            *wrapped(MANY_MISSING, canvas), "", *lines, "", ((left_out, styles.FAINT),),
        ]  # fmt: skip
    full_rows = [
        (
            gap.variable.name,
            gap.variable.display.text,
            gap.variable.boundary or "",
            f"{gap.variable.meaning}; for {', '.join(gap.needed_by) or 'itself'}",
        )
        for gap in gaps
    ]
    return table(("missing input", "unit", "boundary", "meaning and dependents"), full_rows, canvas)


def missing_family_table(gaps: Sequence[MissingInput], canvas: Canvas) -> list[Line]:
    """Inputs without a value, by family."""
    families: dict[str, list[str]] = {}
    for gap in gaps:
        families.setdefault(gap.variable.family or "no family", []).append(gap.variable.name)
    rows = [
        ((name, styles.NAME), str(len(of)), ", ".join(of)) for name, of in sorted(families.items())
    ]
    header = ("missing family", "inputs", "names")
    return table(header, rows, canvas, right=(1,)) or ["missing families: none"]


def diagnostic_lines(resolution: Resolution, canvas: Canvas) -> Iterator[Line]:
    """Switches, conflicts, losses of accuracy and constraints that could not be judged."""
    for title, texts in (
        ("switches", [f"{s.variable}: {s.used} for {s.left}" for s in resolution.switches]),
        ("conflicts", [conflict.text for conflict in resolution.conflicts]),
        ("degradations", list(resolution.degradations)),
        ("not judged", [f"{v.name}: needs {', '.join(v.missing)}" for v in resolution.unjudged]),
    ):
        yield f"{title}: {len(texts) or 'none'}"
        for line in texts:
            yield from wrapped(line, canvas, "    ")


def missing_report(answer: MissingAnswer, as_json: bool) -> Report:
    """A report that lists the missing inputs."""
    return report_of(answer, lambda canvas: missing_table(answer.gaps, canvas), as_json)


def verdict_table(title: str, verdicts: Sequence[ConditionVerdict], canvas: Canvas) -> list[Line]:
    """Conditions and their status."""
    rows = []
    for verdict in verdicts:
        why = verdict.text
        if verdict.missing:
            why += f" (needs {', '.join(verdict.missing)})"
        elif verdict.reason:
            why += f" ({verdict.reason})"
        rows.append((STATUS[verdict.status], verdict.name, why))
    return table(("status", title, "condition"), rows, canvas)


def trace_table(steps: Sequence[TraceStep], canvas: Canvas) -> list[Line]:
    """Values in the order of their computation."""
    rows: list[tuple[Part, ...]] = []
    for step in steps:
        how = step.relation.text if step.relation else step.kind
        how = how.removeprefix(f"{step.variable.name} ")
        rows.append(
            (
                (step.variable.format(step.value), styles.VALUE),
                step.variable.name,
                (how, styles.FAINT),
            )
        )
    return table(("value", "variable", "how"), rows, canvas, right=(0,))


def details(resolution: Resolution) -> list[str]:
    """Notes for `--verbose`: truncated distributions and constraints that are not judged."""
    unjudged = unjudged_notes((*resolution.constraints, *resolution.unjudged))
    return [*resolution.truncations, *unjudged]


def violation_lines(constraints: Sequence[ConditionVerdict], canvas: Canvas) -> Iterator[Line]:
    """The violated constraints, each with the values that violate it."""
    for verdict in constraints:
        if verdict.status == "false":
            condition = verdict.text if len(verdict.text) <= MAX_CONDITION else verdict.meaning
            at = f", but {verdict.at}" if verdict.at else ""
            text = f"violated: {verdict.name}: {condition}{at}"
            yield from wrapped(text, canvas, style=styles.BAD)


def unjudged_notes(verdicts: Sequence[ConditionVerdict]) -> Iterator[str]:
    """One line for each constraint that lacks inputs."""
    for verdict in verdicts:
        if verdict.status == "unknown":
            why = f"needs {', '.join(verdict.missing)}" if verdict.missing else verdict.reason
            yield f"{verdict.name} is not judged: {why}"


def constraint_summary(resolution: Resolution) -> str:
    """Number of constraints that are judged or lie on the value's cone, by status."""
    verdicts = resolution.constraints
    if not verdicts:
        return "no constraint is determined"
    text = f"{count(len(verdicts), 'constraint')}: "
    counts = [
        f"{number} {word}"
        for status, word in _COUNTED.items()
        if (number := sum(verdict.status == status for verdict in verdicts))
    ]
    return text + ", ".join(counts)
