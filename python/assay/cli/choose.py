"""`assay solve`, `minimize` and `sweep`: inverse problems, optimization and parameter sweeps."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli import options
from assay.cli.output import (
    FAINT,
    NAME,
    VALUE,
    Canvas,
    Line,
    Part,
    Report,
    count,
    table,
    working,
    wrapped,
)
from assay.cli.question import (
    Question,
    contradiction,
    read_pairs,
    read_question,
)
from assay.cli.verdicts import (
    missing_report,
    unjudged_notes,
    validity_remarks,
    verdict_table,
    violation_lines,
)
from assay.errors import AssayError, CheckFailedError, InputError, MissingInputsError

if TYPE_CHECKING:
    from assay.model.optimizing.optimum import BindingConstraint, Optimum
    from assay.model.solving.solution import Solution


def solve_command(
    unknown: Annotated[
        list[str] | None,
        typer.Option("--unknown", metavar="VARIABLE", help="A variable to find. May be repeated."),
    ] = None,
    equal: Annotated[
        list[str] | None,
        typer.Option(
            "--equal",
            metavar='NAME="VALUE UNIT"',
            help="A value that a variable must take. May be repeated.",
        ),
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    constraints: Annotated[
        bool, typer.Option("--constraints", help="List the constraints and their status.")
    ] = False,
    no_switch: options.NoSwitch = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Find the values at which variables take given values."""
    question = read_question(preset, assign, variant, includes, model_config)
    required = read_pairs("--equal", 'name="value unit"', equal)
    try:
        with working("solving"):
            solution = question.registry.solve(
                unknown or [], question.given, required, question.variants, switch=not no_switch
            )
    except MissingInputsError as error:
        return missing_report(question.registry, error, as_json)

    def text(canvas: Canvas) -> Iterator[Line]:
        for variable in solution.unknowns:
            value = variable.figure(solution.values[variable.name]).text
            yield ((variable.name, NAME), " = ", (value, VALUE))
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

    violated = solution.violated
    problem: AssayError | None = contradiction(
        question, unknown or [], switch=not no_switch, allow_conflicts=allow_conflicts
    )
    if problem is None and violated and fail_on_violated:
        problem = CheckFailedError(f"violated: {', '.join(violated)}")
    notes = [*validity_remarks(solution.validity), *solution.notes, *question.notes]
    details = [*unjudged_notes((*solution.constraints, *solution.unjudged))]
    data = {**solution.to_data(), "notes": notes}
    return Report(data, text, as_json, problem, notes, details=details)


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
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="A free variable: a,b,c UNIT or start:stop:count[:log] UNIT is enumerated, "
            "lower..upper UNIT is optimized continuously; variant:NAME=A,B chooses between "
            "relations, accelerators=A,B between entries of the catalog. May be repeated.",
        ),
    ] = None,
    maximize: Annotated[
        bool, typer.Option("--maximize", help="Maximize the variable instead.")
    ] = False,
    ignore_constraints: Annotated[
        bool, typer.Option("--ignore-constraints", help="Optimize without constraints.")
    ] = False,
    alternatives: Annotated[
        int, typer.Option("--alternatives", metavar="N", help="Next-best points to list at most.")
    ] = 5,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    no_switch: options.NoSwitch = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Minimize a variable over free variables.

    A feasible point satisfies every constraint that can be checked.
    """
    from assay.cli.ranges import read_choices, split_catalog
    from assay.scenario.includes import known_groups

    if alternatives < 0:
        raise InputError(f"alternatives: expected 0 or more, got {alternatives}")
    catalog, rest = split_catalog(over, known_groups())

    def search(question: Question, choices: dict[str, Any]) -> "Optimum":
        with working("minimizing") as progress:
            return question.registry.minimize(
                target,
                choices,
                question.given,
                question.variants,
                maximize=maximize,
                constraints=not ignore_constraints,
                switch=not no_switch,
                alternatives=alternatives,
                allow_single=bool(catalog),
                progress=lambda done, _: progress(f"minimizing: {done:,} points"),
            )

    if catalog:
        from assay.cli.catalog_minimize import best_entry, catalog_optimum_report
        from assay.cli.catalog_sweep import scenarios

        found = scenarios(catalog, preset, assign, variant, includes, model_config)
        registry = found[0].question.registry
        choices = read_choices(registry, rest) if rest else {}
        best = best_entry(list(catalog), found, lambda q: search(q, choices))
        problem: AssayError | None = contradiction(
            best.question, choices, switch=not no_switch, allow_conflicts=allow_conflicts
        )
        broken = [verdict.name for verdict in best.optimum.resolution.violated]
        if problem is None and broken and fail_on_violated:
            problem = CheckFailedError(f"violated: {', '.join(broken)}")
        return catalog_optimum_report(
            best, lambda canvas: _optimum_lines(best.optimum, canvas), as_json, problem
        )
    question = read_question(preset, assign, variant, includes, model_config)
    choices = read_choices(question.registry, over)
    try:
        optimum = search(question, choices)
    except MissingInputsError as error:
        return missing_report(question.registry, error, as_json)
    violated = [verdict.name for verdict in optimum.resolution.violated]
    problem = contradiction(
        question, choices, switch=not no_switch, allow_conflicts=allow_conflicts
    )
    if problem is None and violated and fail_on_violated:
        problem = CheckFailedError(f"violated: {', '.join(violated)}")
    notes = [*optimum.notes, *question.notes]
    return Report(
        {**optimum.to_data(), "notes": notes},
        lambda canvas: _optimum_lines(optimum, canvas),
        as_json,
        problem,
        notes,
        details=[*unjudged_notes(optimum.unknown)],
    )


def _optimum_lines(optimum: "Optimum", canvas: Canvas) -> Iterator[Line]:
    yield ((optimum.target.name, NAME), " = ", (optimum.target.figure(optimum.value).text, VALUE))
    for name, value in optimum.choices.items():
        yield f"  {name} = {_choice(optimum, name, value)}"
    yield from violation_lines(optimum.resolution.constraints, canvas)
    found = f"{optimum.feasible:,} of {count(optimum.points, 'point')} feasible"
    yield ((f"by {optimum.method}; {found}", FAINT),)
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
                (optimum.target.figure(other.value).text, VALUE),
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
    targets: Annotated[
        list[str], typer.Argument(metavar="VARIABLE...", help="Full names of variables.")
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="An axis: a,b,c UNIT or start:stop:count[:log] UNIT of a variable, or entries of "
            "the catalog, such as accelerators=h100_sxm,h200_sxm. May be repeated; the last varies "
            "fastest.",
        ),
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    no_switch: options.NoSwitch = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Compute variables at every combination of values."""
    from assay.cli.ranges import read_axes, split_catalog
    from assay.cli.sweep_table import sweep_lines
    from assay.model.optimizing.sweep import sweep
    from assay.scenario.includes import known_groups

    catalog, rest = split_catalog(over, known_groups())
    if catalog:
        from assay.cli.catalog_sweep import catalog_sweep, catalog_sweep_report, scenarios

        found_scenarios = scenarios(catalog, preset, assign, variant, includes, model_config)
        axes = read_axes(rest) if rest else {}
        with working("sweeping"):
            tables = catalog_sweep(
                targets, list(catalog), axes, found_scenarios, switch=not no_switch
            )
        conflict = contradiction(
            found_scenarios[0].question,
            axes,
            switch=not no_switch,
            allow_conflicts=allow_conflicts,
        )
        return catalog_sweep_report(
            tables, conflict, fail_on_violated=fail_on_violated, as_json=as_json
        )
    question = read_question(preset, assign, variant, includes, model_config)
    axes = read_axes(rest)
    try:
        with working("sweeping"):
            found = sweep(
                question.registry,
                targets,
                axes,
                question.given,
                question.variants,
                switch=not no_switch,
            )
    except MissingInputsError as error:
        return missing_report(question.registry, error, as_json)
    violated = list(found.violations)
    problem: AssayError | None = contradiction(
        question, axes, switch=not no_switch, allow_conflicts=allow_conflicts
    )
    if problem is None and fail_on_violated and violated:
        problem = CheckFailedError(f"violated at some points: {', '.join(violated)}")
    notes = [*found.notes, *question.notes]
    return Report(
        {**found.to_data(), "notes": notes},
        lambda canvas: sweep_lines(
            list(found.rows()), found.axes, found.targets, found.conditions, canvas
        ),
        as_json,
        problem,
        notes,
        details=[*unjudged_notes(found.unknown)],
    )
