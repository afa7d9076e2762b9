"""`assay stats`, `list`, `show` and `cone`: inspect the model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.describe import relation_lines, variable_lines
from assay.cli.output import (
    Canvas,
    Line,
    Report,
    count,
    cut,
    facts,
    report_of,
    table,
    with_cut,
    wrapped,
)
from assay.errors import InputError
from assay.model.language.relations import Relation
from assay.model.language.variables import Variable
from assay.scenario.named_scenario import Preset
from assay.scenario.questions.describing import role_of
from assay.scenario.questions.graph import (
    DIRECTIONS,
    DescribeAnswer,
    ListAnswer,
    cone,
    describe,
    list_presets,
    list_relations,
    list_variables,
    stats,
)

Item = TypeVar("Item")


def stats_command(as_json: options.Json = False) -> Report:
    """Count the declarations of the model."""
    answer = stats()
    counts = answer.counts

    def text(canvas: Canvas) -> Iterable[Line]:
        width = max(len(f"{number:,}") for number in counts.values())
        return facts(
            ((name.replace("_", " "), f"{number:{width},}") for name, number in counts.items()),
            canvas,
        )

    return report_of(answer, text, as_json)


def list_command(
    match: Annotated[
        str | None, option("--filter TEXT", "Only entries that contain every word of the text.")
    ] = None,
    scope: Annotated[str | None, option("--scope SCOPE", "Only what this scope declares.")] = None,
    roots: Annotated[bool, option("--roots", "Only variables that no relation defines.")] = False,
    targets: Annotated[bool, option("--targets", "Only variables declared as targets.")] = False,
    relations: Annotated[
        bool, option("--relations", "List relations instead of variables.")
    ] = False,
    presets: Annotated[bool, option("--presets", "List scenarios instead of variables.")] = False,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """List variables, relations or presets."""
    _refuse_together(
        {"--presets": presets}, {"--relations": relations, "--scope": scope is not None}
    )
    _refuse_together(
        {"--presets": presets, "--relations": relations}, {"--roots": roots, "--targets": targets}
    )
    if presets:
        return _cut_list(
            "presets", list_presets(match, limit=limit or 0), _preset_lines, limit, as_json
        )
    if relations:
        listed = list_relations(match, scope=scope, limit=limit or 0)
        return _cut_list("relations", listed, _relation_lines, limit, as_json)
    variables = list_variables(match, scope=scope, roots=roots, targets=targets, limit=limit or 0)
    return _cut_list("variables", variables, _variable_lines, limit, as_json)


def _variable_lines(shown: Sequence[Variable], canvas: Canvas) -> list[Line]:
    rows = [((v.name, styles.NAME), v.display.text, v.meaning) for v in shown]
    return table(("variable", "unit", "meaning"), rows, canvas)


def _relation_lines(shown: Sequence[Relation], canvas: Canvas) -> Iterator[Line]:
    for relation in shown:
        yield ((relation.name, styles.NAME), (f"  {relation.kind}", styles.FAINT))
        yield from wrapped(relation.text, canvas, "    ")


def _preset_lines(shown: Sequence[Preset], canvas: Canvas) -> list[Line]:
    rows = [((preset.name, styles.NAME), preset.description) for preset in shown]
    return table(("preset", "description"), rows, canvas)


def _cut_list(
    noun: str,
    answer: ListAnswer[Item],
    text: Callable[[Sequence[Item], Canvas], Iterable[Line]],
    limit: int | None,
    as_json: bool,
) -> Report:
    """A list of at most so many rows, which says what it leaves out; in JSON all by default."""
    rows_at_most = options.MAX_LISTED if limit is None else limit
    left_out = cut(rows_at_most, **{noun: answer.items})

    def lines(canvas: Canvas) -> Iterator[Line]:
        if not answer.items:
            yield ((f"no {noun} of that kind; fewer words find more", styles.FAINT),)
        yield from text(answer.items[: rows_at_most or None], canvas)
        if left_out:
            yield ""
            yield ((left_out, styles.FAINT),)

    return report_of(with_cut(answer, left_out), lines, as_json)


def _refuse_together(some: Mapping[str, bool], others: Mapping[str, bool]) -> None:
    for name, is_given in some.items():
        for other in (flag for flag, is_other in others.items() if is_given and is_other):
            raise InputError(f"{name} and {other} cannot be combined", f"drop {other}")


def show_command(
    name: Annotated[str, argument("NAME", "A variable, relation or block.")],
    as_json: options.Json = False,
) -> Report:
    """Describe a variable, relation or block."""
    answer = describe(name)
    return report_of(answer, lambda canvas: _described_lines(answer, canvas), as_json)


def _described_lines(answer: DescribeAnswer, canvas: Canvas) -> Iterator[Line]:
    registry, item = answer.registry, answer.item
    if isinstance(item, Variable):
        yield from variable_lines(registry, item, canvas)
    elif isinstance(item, Relation):
        yield from relation_lines(registry, item, canvas)
    else:
        yield ((item.name, styles.NAME), "  simultaneous block")
        for member in item.members:
            for relation in registry.variables[member].defining_equations:
                yield from wrapped(relation.text, canvas, "    ")


def cone_command(
    target: options.Target,
    direction: Annotated[
        str,
        option(
            "--direction",
            "up: inputs of the variable; down: its dependents; or both.",
            metavar="|".join(DIRECTIONS),
        ),
    ] = "up",
    depth: Annotated[int | None, option("--depth N", "Most relations to follow.")] = None,
    brief: Annotated[bool, option("--brief", "JSON with names, layers and inputs only.")] = False,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """List the inputs or the dependents of a variable.

    All that some choice of relations makes an input counts; with a scenario only what it uses.
    """
    answer = cone(
        target,
        direction,
        depth,
        brief=brief,
        **options.given(preset, assign, variant, includes, None, None, None),
    )
    variables, relations = answer.variables, answer.relations
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, variables=variables, relations=relations)

    def text(canvas: Canvas) -> Iterator[Line]:
        roots = sum(role_of(variable) == "root" for variable in variables)
        yield (
            (target, styles.NAME),
            f": {count(len(variables), 'variable')}, {count(roots, 'root')}, "
            f"{count(len(relations), 'relation')}",
        )
        yield ""
        shown = variables[: rows_at_most or None]
        rows = [(role_of(v), (v.name, styles.NAME), v.display.text, v.meaning) for v in shown]
        yield from table(("role", "variable", "unit", "meaning"), rows, canvas)
        yield ""
        for relation in relations[: rows_at_most or None]:
            yield from wrapped(relation.text, canvas)
        if left_out:
            yield ""
            yield ((left_out, styles.FAINT),)

    return report_of(with_cut(answer, left_out), text, as_json)
