"""`assay walk`: the chain of relations from one variable to another, with what each step passes on."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, table, wrapped
from assay.scenario.questions.walking import WalkAnswer, walk

if TYPE_CHECKING:
    from assay.model.comparing.walks import WalkStep


def walk_command(
    start: Annotated[str, argument("FROM", "A variable, or a word in names, such as quark.")],
    target: Annotated[str, argument("TO", "The variable that the walk leads to.")],
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    as_json: options.Json = False,
) -> Report:
    """Walk from one variable to another, relation by relation.

    `step` is the elasticity of each step, the per cent by which a variable follows one per cent of
    the one before it; `carried` is their product so far. Of several ways it is the one that carries most.
    Where a stated quantity is in the way, the walk chooses the relation that computes it. Without
    --preset, an H100 training run is walked through.
    """
    answer = walk(
        start, target, **options.given(preset, assign, variant, includes, None, None, None)
    )
    return report_of(answer, lambda canvas: _lines(answer, canvas), as_json)


def _lines(answer: WalkAnswer, canvas: Canvas) -> Iterator[Line]:
    steps = answer.steps
    yield (
        (steps[0].variable.name, styles.NAME),
        " to ",
        (steps[-1].variable.name, styles.NAME),
        f": {count(len(steps) - 1, 'step')}, {count(len(answer.layers), 'layer')}, elasticity "
        f"{_number(steps[-1].carried)} of this way, {_number(answer.total)} of all ways",
    )
    yield ""
    columns = ("variable", "value", "step", "carried")
    yield from table(columns, [_row(step) for step in steps], canvas, right=(1, 2, 3))
    yield ""
    yield from wrapped(answer.command, canvas, "", styles.FAINT)


def _row(step: "WalkStep") -> tuple[Part, ...]:
    variable = step.variable
    value = "" if step.value is None else variable.figure(step.value).text
    return (
        (variable.name, styles.NAME),
        (value, styles.VALUE),
        "" if step.relation is None else _number(step.elasticity),
        _number(step.carried),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
