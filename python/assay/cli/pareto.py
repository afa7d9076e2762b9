"""`assay pareto`: the Pareto front of two targets."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, count, report_of, working, wrapped
from assay.cli.sweep_table import entry_lines
from assay.scenario.questions.sweeping import pareto


def pareto_command(
    first: Annotated[str, argument("VARIABLE", "The first target.")],
    second: Annotated[str, argument("VARIABLE", "The second target.")],
    over: Annotated[
        list[str] | None,
        option(
            "--over NAME=VALUES",
            "A choice: a,b,c UNIT or start:stop:count[:log] UNIT of a variable, or entries of "
            "the catalog, such as accelerators=h100_sxm,h200_sxm. May be repeated.",
        ),
    ] = None,
    maximize: Annotated[
        list[str] | None,
        option("--maximize VARIABLE", "A target of which more is better; else less is."),
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    no_switch: options.NoSwitch = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Find the Pareto front of two targets over choices.

    A point is on the front if it satisfies every constraint that can be checked, and no other such
    point is at least as good in both targets and better in one.
    """
    with working("enumerating"):
        answer = pareto(
            first,
            second,
            over,
            maximize=maximize or (),
            switch=not no_switch,
            allow_conflicts=allow_conflicts,
            **options.given(preset, assign, variant, includes, model_config, offer=offer),
        )

    def text(canvas: Canvas) -> Iterator[Line]:
        if answer.front:
            yield from entry_lines(answer.swept, answer.front, canvas)
        points = count(answer.points, "point")
        shares = f"{len(answer.front):,} of {points} on the front, {answer.feasible:,} feasible"
        yield ((shares, styles.FAINT),)
        for name in [] if answer.front else answer.swept.violated:
            yield from wrapped(f"violated: {name}", canvas, style=styles.BAD)

    return report_of(answer, text, as_json)
