"""`assay diff` and `assay sensitivity`: what carries a difference, and what moves a value."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, table, working
from assay.cli.verdicts import missing_report
from assay.errors import InputError
from assay.model.language.figures import figure, figure_column, figure_range
from assay.model.language.units import Unit
from assay.model.language.variables import Variable
from assay.scenario.questions.comparing import GROUPINGS, diff, sensitivity
from assay.scenario.questions.missing import MissingAnswer

if TYPE_CHECKING:
    from assay.model.comparing.difference import Change, Difference
    from assay.model.comparing.sensitivity import InputSensitivity, Sensitivities

MAX_LISTED: Final = 20


def sensitivity_command(
    target: options.Target,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    step: Annotated[
        float, option("--step SHARE", "Relative change of an input without an interval.")
    ] = 0.1,
    limit: Annotated[int, option("--limit N", "Inputs to print at most; 0 for all.")] = MAX_LISTED,
    no_switch: options.NoSwitch = False,
    as_json: options.Json = False,
) -> Report:
    """List what moves a variable most.

    For each input: its elasticity (per cent of the variable for one per cent of the input, exact),
    and the variable at both ends of the input's 90 % interval, or of a change of 10 % where it has
    none.
    """
    if limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    with working("differentiating"):
        answer = sensitivity(
            target,
            step=step,
            switch=not no_switch,
            **options.given(preset, assign, variant, includes, model_config, offer=offer),
        )
    if isinstance(answer, MissingAnswer):
        return missing_report(answer, as_json)
    moved = answer.sensitivities
    return report_of(answer, lambda canvas: _sensitivity_lines(moved, limit, canvas), as_json)


def _sensitivity_lines(ranking: "Sensitivities", limit: int, canvas: Canvas) -> Iterator[Line]:
    yield (
        (ranking.target.name, styles.NAME),
        " = ",
        (ranking.target.figure(ranking.value).text, styles.VALUE),
    )
    yield ""
    shown = ranking.inputs[: limit or None]
    rows = [_sensitivity_row(item, ranking) for item in shown]
    header = ("elasticity", "input", "range", "effect")
    yield from table(header, rows, canvas, right=(0,)) or ["no given input moves it"]
    if len(shown) < len(ranking.inputs):
        yield (
            (
                f"{len(shown)} of {count(len(ranking.inputs), 'input')}; --limit 0 lists all",
                styles.FAINT,
            ),
        )
    if ranking.unmoved:
        yield ((f"{count(len(ranking.unmoved), 'input')} more do not move it", styles.FAINT),)


def _sensitivity_row(item: "InputSensitivity", ranking: "Sensitivities") -> tuple[Part, ...]:
    elasticity = "-" if item.elasticity is None else f"{item.elasticity:+.3f}"
    ends = figure_range(*item.ends, item.variable.display)
    reached = " to ".join(_percent(end, ranking.value) for end in (item.low, item.high))
    return ((elasticity, styles.VALUE), (item.variable.name, styles.NAME), ends, reached)


def _percent(value: float, base: float) -> str:
    return "-" if base == 0 or value != value else f"{value / base - 1:+.1%}"


def diff_command(
    first: Annotated[
        str, argument("A", "A scenario (its name or .toml file), or a result (.json of resolve).")
    ],
    second: Annotated[str, argument("B", "The scenario or result to compare.")],
    target: Annotated[
        str | None,
        option(
            "--target VARIABLE",
            "The variable to compare; by default that of a result, or the first target that "
            "both scenarios have.",
        ),
    ] = None,
    by: Annotated[
        str,
        option(
            "--by",
            "Contributions of catalog entries, or of single inputs.",
            metavar="|".join(GROUPINGS),
        ),
    ] = "source",
    with_second: Annotated[
        list[str] | None, option("--with GROUP/NAME", "A catalog entry for B. May be repeated.")
    ] = None,
    assign_second: Annotated[
        list[str] | None,
        option('--assign --set NAME="VALUE UNIT"', "A value for B. May be repeated."),
    ] = None,
    with_first: Annotated[
        list[str] | None,
        option("--with-first GROUP/NAME", "A catalog entry for A. May be repeated."),
    ] = None,
    assign_first: Annotated[
        list[str] | None,
        option('--assign-first NAME="VALUE UNIT"', "A value for A. May be repeated."),
    ] = None,
    variant_second: Annotated[
        list[str] | None,
        option("--variant VARIABLE=RELATION", "A relation for B. May be repeated."),
    ] = None,
    variant_first: Annotated[
        list[str] | None,
        option("--variant-first VARIABLE=RELATION", "A relation for A. May be repeated."),
    ] = None,
    limit: Annotated[
        int, option("--limit N", "Contributions to print at most; 0 for all.")
    ] = MAX_LISTED,
    as_json: options.Json = False,
) -> Report:
    """Attribute the difference of two answers to inputs.

    Contributions are Shapley values and sum to the difference. Uncertain inputs stand at their
    medians. `assay diff P P --with accelerators/h200_sxm` compares P with a change of it.
    """
    if limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    with working("comparing"):
        answer = diff(
            first,
            second,
            target,
            by=by,
            with_before=with_first,
            assign_before=assign_first,
            with_after=with_second,
            assign_after=assign_second,
            variant_before=variant_first,
            variant_after=variant_second,
        )
    if isinstance(answer, MissingAnswer):
        return missing_report(answer, as_json)
    return report_of(
        answer,
        lambda canvas: _difference_lines(answer.difference, answer.variables, limit, canvas),
        as_json,
    )


def _difference_lines(
    difference: "Difference", variables: Mapping[str, Variable], limit: int, canvas: Canvas
) -> Iterator[Line]:
    target, before, after = difference.target, difference.before, difference.after
    ends = figure_range(before, after, target.display)
    yield ((target.name, styles.NAME), ": ", (ends, styles.VALUE), f" ({_percent(after, before)})")
    yield ""
    shown = difference.contributions[: limit or None]
    unit, amounts = figure_column([item.amount for item in shown], _difference_unit(target))
    total = after - before
    rows: list[tuple[Part, ...]] = [
        (
            (f"{'+' if item.amount >= 0 else ''}{amount}", styles.VALUE),
            f"{item.amount / total:.1%}" if total else "-",
            (item.label, styles.NAME),
            _changes_text(item.changes, variables),
        )
        for item, amount in zip(shown, amounts, strict=True)
    ]
    header = ("contribution" if unit == "1" else unit, "share", "from", "change")
    yield from table(header, rows, canvas, right=(0, 1)) or ["no input that it depends on differs"]
    yield from (((line, styles.FAINT),) for line in _remainder(difference, len(shown)))


def _remainder(difference: "Difference", listed: int) -> Iterator[str]:
    """What the table leaves out: further contributions, idle inputs, and the sampling error."""
    unit = _difference_unit(difference.target)
    if listed < len(difference.contributions):
        rest = figure(sum(item.amount for item in difference.contributions[listed:]), unit).text
        many = count(len(difference.contributions) - listed, "contribution")
        yield f"{many} more sum to {rest}; --limit 0 lists all"
    if difference.unused:
        names = count(len(difference.unused), "changed input")
        yield f"{names} more {'does' if len(difference.unused) == 1 else 'do'} not reach it"
    if difference.orders is not None:
        error = figure(max(item.error for item in difference.contributions), unit).text
        yield f"from {difference.orders} sampled orders of the changes; standard error at most {error}"


def _difference_unit(variable: Variable) -> Unit:
    """The unit of a difference of two values: one without a zero point of its own."""
    return variable.unit if variable.display.offset else variable.display


def _changes_text(changes: Sequence["Change"], variables: Mapping[str, Variable]) -> str:
    if len(changes) > 1:
        return count(len(changes), "input")
    [change] = changes
    if isinstance(change.before, float) and isinstance(change.after, float):
        return figure_range(change.before, change.after, variables[change.name].display)
    ends = [
        variables[change.name].figure(end).text if isinstance(end, float) else end or "not given"
        for end in (change.before, change.after)
    ]
    return f"{ends[0]} to {ends[1]}"
