"""`assay diff` and `assay sensitivity`: what carries a difference, and what moves a value."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

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
)
from assay.cli.question import ON_COMMAND_LINE, Question, one_of, read_question
from assay.cli.verdicts import missing_report, remarks
from assay.errors import InputError, MissingInputsError
from assay.files import read_json
from assay.model.language.figures import figure, figure_column, figure_range
from assay.model.language.units import Unit
from assay.model.language.variables import Variable

if TYPE_CHECKING:
    from assay.model.comparing.difference import Change, Difference
    from assay.model.comparing.sensitivity import InputSensitivity, Sensitivities

MAX_LISTED: Final = 20
GROUPINGS: Final = ("source", "input")
_LARGEST_RESULT: Final = 50_000_000


def sensitivity_command(
    target: options.Target,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    step: Annotated[
        float,
        typer.Option(
            "--step", metavar="SHARE", help="Relative change of an input without an interval."
        ),
    ] = 0.1,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Inputs to print at most; 0 for all.")
    ] = MAX_LISTED,
    no_switch: options.NoSwitch = False,
    as_json: options.Json = False,
) -> Report:
    """List what moves a variable most.

    For each input: its elasticity (per cent of the variable for one per cent of the input, exact),
    and the variable at both ends of the input's 90 % interval, or of a change of 10 % where it has
    none.
    """
    from assay.model.comparing.sensitivity import sensitivities

    if limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    question = read_question(preset, assign, variant, includes, model_config)
    try:
        with working("differentiating"):
            found = sensitivities(
                question.registry, target, question.inputs, question.variants,
                step=step, switch=not no_switch,
            )  # fmt: skip
    except MissingInputsError as error:
        return missing_report(question.registry, error, as_json)
    here = _Judged("", question, target, switch=not no_switch)
    return Report(
        {**found.to_data(), "violated": here.violated},
        lambda canvas: _sensitivity_lines(found, limit, canvas),
        as_json,
        notes=[*here.notes, *question.notes, *found.notes],
    )


def _sensitivity_lines(found: "Sensitivities", limit: int, canvas: Canvas) -> Iterator[Line]:
    yield ((found.target.name, NAME), " = ", (found.target.figure(found.value).text, VALUE))
    yield ""
    shown = found.inputs[: limit or None]
    rows = [_sensitivity_row(item, found) for item in shown]
    header = ("elasticity", "input", "range", "effect")
    yield from table(header, rows, canvas, right=(0,)) or ["no given input moves it"]
    if len(shown) < len(found.inputs):
        yield (
            (f"{len(shown)} of {count(len(found.inputs), 'input')}; --limit 0 lists all", FAINT),
        )
    if found.unmoved:
        yield ((f"{count(len(found.unmoved), 'input')} more do not move it", FAINT),)


def _sensitivity_row(item: "InputSensitivity", found: "Sensitivities") -> tuple[Part, ...]:
    elasticity = "-" if item.elasticity is None else f"{item.elasticity:+.3f}"
    ends = figure_range(*item.ends, item.variable.display)
    reached = " to ".join(_percent(end, found.value) for end in (item.low, item.high))
    return ((elasticity, VALUE), (item.variable.name, NAME), ends, reached)


def _percent(value: float, base: float) -> str:
    return "-" if base == 0 or value != value else f"{value / base - 1:+.1%}"


def diff_command(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A scenario (its name or .toml file), or a result (.json of resolve)."
        ),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The scenario or result to compare.")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="VARIABLE",
            help="The variable to compare; by default that of a result, or the first target that "
            "both scenarios have.",
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="|".join(GROUPINGS),
            help="Contributions of catalog entries, or of single inputs.",
        ),
    ] = "source",
    with_second: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="GROUP/NAME", help="A catalog entry for B. May be repeated."
        ),
    ] = None,
    assign_second: Annotated[
        list[str] | None,
        typer.Option(
            "--assign", "--set", metavar='NAME="VALUE UNIT"', help="A value for B. May be repeated."
        ),
    ] = None,
    with_first: Annotated[
        list[str] | None,
        typer.Option(
            "--with-first", metavar="GROUP/NAME", help="A catalog entry for A. May be repeated."
        ),
    ] = None,
    assign_first: Annotated[
        list[str] | None,
        typer.Option(
            "--assign-first", metavar='NAME="VALUE UNIT"', help="A value for A. May be repeated."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Contributions to print at most; 0 for all.")
    ] = MAX_LISTED,
    as_json: options.Json = False,
) -> Report:
    """Attribute the difference of two answers to inputs.

    Contributions are Shapley values and sum to the difference. Uncertain inputs stand at their
    medians. `assay diff P P --with accelerators/h200_sxm` compares P with a change of it.
    """
    from assay.model.comparing.difference import Side, difference

    if limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    grouping = one_of("grouping", by, GROUPINGS)
    one = _read_side(first, with_first, assign_first)
    other = _read_side(second, with_second, assign_second)
    registry = one.question.registry
    chosen = target or _shared_target(one, other)
    before, after = (Side(s.question.inputs.values, s.question.variants) for s in (one, other))
    labels = _labels(one.question, other.question) if grouping == "source" else {}
    try:
        with working("comparing"):
            found = difference(registry, chosen, before, after, labels)
    except MissingInputsError as error:
        return missing_report(registry, error, as_json)
    judged = [_Judged("A: ", one.question, chosen), _Judged("B: ", other.question, chosen)]
    beside = [note for side in judged for note in side.notes]
    notes = [*dict.fromkeys([*beside, *one.question.notes, *other.question.notes, *found.notes])]
    return Report(
        {
            **found.to_data(registry.variables),
            "violated_before": judged[0].violated,
            "violated_after": judged[1].violated,
        },
        lambda canvas: _difference_lines(found, registry.variables, limit, canvas),
        as_json,
        notes=notes,
    )


class _Judged:
    """Constraints and validity at the point of a question, whose value is computed elsewhere."""

    def __init__(self, side: str, question: Question, target: str, *, switch: bool = True) -> None:
        resolution = question.resolve(target, switch=switch, intervals=False)
        self.violated = [verdict.name for verdict in resolution.violated]
        broken = [f"violated: {v.name}: {v.meaning or v.text}" for v in resolution.violated]
        self.notes = [f"{side}{note}" for note in (*broken, *remarks(resolution))]


class _ReadSide:
    """One side of a comparison: its question, and the targets that it names."""

    def __init__(self, question: Question, targets: Sequence[str]) -> None:
        self.question, self.targets = question, targets


def _read_side(
    text: str, includes: Sequence[str] | None = None, assign: Sequence[str] | None = None
) -> _ReadSide:
    if not text.endswith(".json"):
        question = read_question(text, assign, None, includes)
        targets = [name for _, name in question.preset.targets] if question.preset else []
        return _ReadSide(question, targets)
    if includes:
        raise InputError("--with: expected a scenario as B, got a result", "use --assign")
    values, target = _read_result(Path(text))
    question = read_question(None, [*values, *(assign or ())], None)
    return _ReadSide(question, [target])


def _read_result(path: Path) -> tuple[list[str], str]:
    """The given values of a result of `assay resolve --json`, as assignments, and its target."""
    data: Any = read_json("result", path, _LARGEST_RESULT)
    try:
        steps = [step for step in data["trace"] if step["kind"] == "given"]
        values = [f"{step['name']}={step['value']!r} {step['unit']}" for step in steps]
        return values, str(data["target"])
    except (KeyError, TypeError):
        raise InputError(
            f"result {path.name}: expected the keys target and trace of assay resolve --json",
            f"assay resolve VARIABLE --preset PRESET --json > {path.name}",
        ) from None


def _shared_target(one: _ReadSide, other: _ReadSide) -> str:
    for name in one.targets:
        if name in other.targets:
            return name
    raise InputError("the two have no target in common", "name one with --target")


def _labels(one: Question, other: Question) -> dict[str, str]:
    """The catalog entries that give a value on both sides, by variable."""
    origins = [_origins(question) for question in (one, other)]
    labels = {}
    for name in {*origins[0], *origins[1]}:
        before, after = origins[0].get(name), origins[1].get(name)
        if before == after or before is None or after is None:
            path = before or after or ""
            # An entry that only one side has brings the values that the other lacks.
            labels[name] = path
        elif before.partition("/")[0] == after.partition("/")[0]:
            labels[name] = f"{before} -> {after.partition('/')[2] or after}"
    return labels


def _origins(question: Question) -> dict[str, str]:
    """The catalog entry behind each value that no one states directly."""
    if question.preset is None:
        return {}
    found = {name: part.path for part in question.preset.included for name in part.values}
    stated = {n for n, source in question.sources.items() if source == ON_COMMAND_LINE}
    return {n: path for n, path in found.items() if n not in question.preset.own | stated}


def _difference_lines(
    found: "Difference", variables: Mapping[str, Variable], limit: int, canvas: Canvas
) -> Iterator[Line]:
    target = found.target
    ends = figure_range(found.before, found.after, target.display)
    yield ((target.name, NAME), ": ", (ends, VALUE), f" ({_percent(found.after, found.before)})")
    yield ""
    shown = found.contributions[: limit or None]
    unit, amounts = figure_column([item.amount for item in shown], _difference_unit(target))
    total = found.after - found.before
    rows: list[tuple[Part, ...]] = [
        (
            (f"{'+' if item.amount >= 0 else ''}{amount}", VALUE),
            f"{item.amount / total:.1%}" if total else "-",
            (item.label, NAME),
            _changes_text(item.changes, variables),
        )
        for item, amount in zip(shown, amounts, strict=True)
    ]
    header = ("contribution" if unit == "1" else unit, "share", "from", "change")
    yield from table(header, rows, canvas, right=(0, 1)) or ["no input that it depends on differs"]
    yield from (((line, FAINT),) for line in _remainder(found, len(shown)))


def _remainder(found: "Difference", listed: int) -> Iterator[str]:
    """What the table leaves out: further contributions, idle inputs, and the sampling error."""
    unit = _difference_unit(found.target)
    if listed < len(found.contributions):
        rest = figure(sum(item.amount for item in found.contributions[listed:]), unit).text
        many = count(len(found.contributions) - listed, "contribution")
        yield f"{many} more sum to {rest}; --limit 0 lists all"
    if found.unused:
        names = count(len(found.unused), "changed input")
        yield f"{names} more {'does' if len(found.unused) == 1 else 'do'} not reach it"
    if found.orders is not None:
        error = figure(max(item.error for item in found.contributions), unit).text
        yield f"from {found.orders} sampled orders of the changes; standard error at most {error}"


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
