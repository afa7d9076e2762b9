"""`assay solve`, `minimize` and `sweep`: inverse problems, optimization and parameter sweeps."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, table, working, wrapped
from assay.cli.sweep_table import entry_lines, summary_lines, sweep_lines
from assay.cli.undetermined import verdict_report
from assay.cli.verdicts import missing_report, unjudged_notes, verdict_table, violation_lines
from assay.errors import InputError
from assay.scenario.questions.minimizing import EntryOptimum, MinimizeEntriesAnswer, minimize
from assay.scenario.questions.missing import MissingAnswer
from assay.scenario.questions.solving import solve
from assay.scenario.questions.sweeping import SweepEntriesAnswer, summarize_sweep, sweep

if TYPE_CHECKING:
    from assay.model.optimizing.optimum import BindingConstraint, Optimum
    from assay.model.solving.solution import Solution


def solve_command(
    unknown: Annotated[
        list[str] | None, option("--unknown VARIABLE", "A variable to find. May be repeated.")
    ] = None,
    equal: Annotated[
        list[str] | None,
        option('--equal NAME="VALUE UNIT"', "A value that a variable must take. May be repeated."),
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    constraints: Annotated[
        bool, option("--constraints", "List the constraints and their status.")
    ] = False,
    no_switch: options.NoSwitch = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Find the values at which variables take given values."""
    with working("solving"):
        answer = solve(
            unknown or (),
            equal,
            switch=not no_switch,
            fail_on_violated=fail_on_violated,
            allow_conflicts=allow_conflicts,
            **options.given(preset, assign, variant, includes, model_config, offer=offer),
        )
    if isinstance(answer, MissingAnswer):
        return missing_report(answer, as_json)
    solution = answer.solution

    def text(canvas: Canvas) -> Iterator[Line]:
        for variable in solution.unknowns:
            value = variable.figure(solution.values[variable.name]).text
            yield ((variable.name, styles.NAME), " = ", (value, styles.VALUE))
        yield from _whole_lines(solution, canvas)
        for position, other in enumerate(solution.others):
            shown = ", ".join(
                f"{v.name} = {v.figure(other[v.name]).text}" for v in solution.unknowns
            )
            yield f"also: {shown}" if position == 0 else f"      {shown}"
        if not solution.whole:
            yield from violation_lines(solution.constraints, canvas)
        if constraints:
            yield ""
            yield from verdict_table("constraint", solution.constraints, canvas)
            yield from verdict_table("approximation", solution.validity, canvas)

    details = [*unjudged_notes((*solution.constraints, *solution.unjudged))]
    return verdict_report(answer, text, as_json, details=details)


def _whole_lines(solution: "Solution", canvas: Canvas) -> Iterator[Line]:
    """The whole values on either side of a count, and what the required variables are there."""
    if not solution.whole:
        return
    yield "counts are whole; on either side:"
    for neighbor in solution.whole:
        at = ", ".join(
            f"{name} = {neighbor.variables[name].figure(value).text}"
            for name, value in neighbor.values.items()
        )
        reached = ", ".join(
            f"{name} = {r.variable.figure(r.require_value()).text}"
            for name, r in neighbor.resolutions.items()
        )
        broken = f"; violated: {', '.join(neighbor.violated)}" if neighbor.violated else ""
        yield from wrapped(f"{at}: {reached}{broken}", canvas, "  ")


def minimize_command(
    target: options.Target,
    over: Annotated[
        list[str] | None,
        option(
            "--over NAME=VALUES",
            "A free variable: a,b,c UNIT or start:stop:count[:log] UNIT is enumerated, "
            "lower..upper UNIT is optimized continuously; variant:NAME=A,B chooses between "
            "relations, accelerators=A,B between entries of the catalog. May be repeated.",
        ),
    ] = None,
    maximize: Annotated[bool, option("--maximize", "Maximize the variable instead.")] = False,
    ignore_constraints: Annotated[
        bool, option("--ignore-constraints", "Optimize without constraints.")
    ] = False,
    alternatives: Annotated[
        int, option("--alternatives N", "Next-best points to list at most.")
    ] = 5,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    no_switch: options.NoSwitch = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    workers: options.Workers = None,
    as_json: options.Json = False,
) -> Report:
    """Minimize a variable over free variables.

    A feasible point satisfies every constraint that can be checked.
    """
    with working("minimizing") as progress:
        answer = minimize(
            target,
            over,
            maximize=maximize,
            constraints=not ignore_constraints,
            alternatives=alternatives,
            switch=not no_switch,
            fail_on_violated=fail_on_violated,
            allow_conflicts=allow_conflicts,
            workers=workers,
            progress=progress,
            **options.given(preset, assign, variant, includes, model_config, offer=offer),
        )
    if isinstance(answer, MissingAnswer):
        return missing_report(answer, as_json)
    if isinstance(answer, MinimizeEntriesAnswer):
        return verdict_report(answer, lambda canvas: _best_entry_lines(answer, canvas), as_json)
    return verdict_report(
        answer,
        lambda canvas: _optimum_lines(answer.optimum, canvas),
        as_json,
        details=[*unjudged_notes(answer.optimum.unknown)],
    )


def _best_entry_lines(answer: MinimizeEntriesAnswer, canvas: Canvas) -> Iterator[Line]:
    """The best entry, its optimum, and what every other entry reaches."""
    for group, entry in zip(answer.groups, answer.entries, strict=True):
        yield (f"{group}: ", (entry, styles.NAME))
    if answer.caveat:
        yield ((answer.caveat, styles.BAD),)
    yield from _optimum_lines(answer.optimum, canvas)
    yield ""
    rows = [_entry_row(each) for each in answer.every]
    yield from table((*answer.groups, "best", ""), rows, canvas)


def _entry_row(each: EntryOptimum) -> tuple[Part, ...]:
    names = [(name, styles.NAME) for name in each.entries]
    if each.optimum is None:
        return (*names, ("-", styles.VALUE), (each.reason, styles.BAD))
    figure = each.optimum.target.figure(each.optimum.value).text
    return (*names, (figure, styles.VALUE), (each.caveat, styles.FAINT))


def _optimum_lines(optimum: "Optimum", canvas: Canvas) -> Iterator[Line]:
    yield (
        (optimum.target.name, styles.NAME),
        " = ",
        (optimum.target.figure(optimum.value).text, styles.VALUE),
    )
    for name, value in optimum.choices.items():
        yield f"  {name} = {_choice(optimum, name, value)}"
    yield from violation_lines(optimum.resolution.constraints, canvas)
    points = f"{optimum.feasible:,} of {count(optimum.points, 'point')} feasible"
    yield ((f"by {optimum.method}; {points}", styles.FAINT),)
    for binding in optimum.binding:
        yield from wrapped(
            f"bound by {binding.name}: {binding.text}{_price(optimum, binding)}", canvas
        )
    for name, excluded in optimum.excluded.items():
        yield from wrapped(f"{name} excludes {count(excluded, 'point')}", canvas)
    if optimum.alternatives:
        yield ""
        rows: list[tuple[Part, ...]] = [
            (
                (optimum.target.figure(other.value).text, styles.VALUE),
                ", ".join(f"{n} = {_choice(optimum, n, v)}" for n, v in other.choices.items()),
            )
            for other in optimum.alternatives
        ]
        yield from table(("next best", "choices"), rows, canvas)


def _price(optimum: "Optimum", binding: "BindingConstraint") -> str:
    """What the constraint costs, in the unit of the target."""
    target = optimum.target
    scale = target.shown(1.0) - target.shown(0.0)
    if binding.gain:
        return f"; without it {binding.gain * scale:.4g} {target.display.text} better"
    if binding.price:
        return f"; {binding.price * scale:.4g} {target.display.text} per unit of slack"
    return ""


def _choice(optimum: "Optimum", name: str, value: float | str) -> str:
    return value if isinstance(value, str) else optimum.variables[name].figure(value).text


def sweep_command(
    targets: Annotated[list[str], argument("VARIABLE...", "Full names of variables.")],
    over: Annotated[
        list[str] | None,
        option(
            "--over NAME=VALUES",
            "An axis: a,b,c UNIT or start:stop:count[:log] UNIT of a variable, or entries of "
            "the catalog, such as accelerators=h100_sxm,h200_sxm. May be repeated; the last varies "
            "fastest.",
        ),
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    no_switch: options.NoSwitch = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    summary: Annotated[
        bool,
        option(
            "--summary",
            "Reduce the points instead of listing them, of which there may then be any number: "
            "the least and the most, the mean, what is violated how often, and a digest of all values.",
        ),
    ] = False,
    workers: options.Workers = None,
    as_json: options.Json = False,
) -> Report:
    """Compute variables at every combination of values."""
    given = options.given(preset, assign, variant, includes, model_config, offer=offer)
    if summary:
        with working("sweeping") as progress:
            reduced = summarize_sweep(
                targets,
                over,
                switch=not no_switch,
                fail_on_violated=fail_on_violated,
                allow_conflicts=allow_conflicts,
                workers=workers,
                progress=progress,
                **given,
            )
        if isinstance(reduced, MissingAnswer):
            return missing_report(reduced, as_json)
        details = [*unjudged_notes(reduced.summary.unknown)]
        return verdict_report(
            reduced, lambda canvas: summary_lines(reduced.summary, canvas), as_json, details=details
        )
    if workers is not None:
        raise InputError(
            "--workers: expected it with --summary, got it without",
            "a table of all points is made in one process",
        )
    with working("sweeping"):
        answer = sweep(
            targets,
            over,
            switch=not no_switch,
            fail_on_violated=fail_on_violated,
            allow_conflicts=allow_conflicts,
            **given,
        )
    if isinstance(answer, MissingAnswer):
        return missing_report(answer, as_json)
    if isinstance(answer, SweepEntriesAnswer):
        swept = answer.swept
        return report_of(
            answer, lambda canvas: entry_lines(swept, list(swept.rows()), canvas), as_json
        )
    swept_table = answer.table
    return verdict_report(
        answer,
        lambda canvas: sweep_lines(
            list(swept_table.rows()),
            swept_table.axes,
            swept_table.targets,
            swept_table.conditions,
            canvas,
        ),
        as_json,
        details=[*unjudged_notes(swept_table.unknown)],
    )
