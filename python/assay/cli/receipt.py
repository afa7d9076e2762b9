"""`assay receipt`: what a value is made of, line by line with shares of the total."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, count, table
from assay.cli.undetermined import verdict_report
from assay.cli.verdicts import answer_line, details, missing_table, violation_lines
from assay.errors import InputError
from assay.scenario.questions.receipts import receipt

if TYPE_CHECKING:
    from assay.model.comparing.receipt import PathLine, Receipt

DEPTH: Final = 4
LEAST_SHARE: Final = 0.01


def receipt_command(
    target: options.Target,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    offer: options.Offer = None,
    correlate: options.Correlate = None,
    depth: Annotated[int, option("--depth N", "Levels below the variable.")] = DEPTH,
    least_share: Annotated[
        float, option("--least-share SHARE", "Leave out lines with a smaller share.")
    ] = LEAST_SHARE,
    no_switch: options.NoSwitch = False,
    no_interval: options.NoInterval = False,
    fail_on_violated: options.FailOnViolated = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Print what a value is made of, with shares of the total.

    A share is the per cent by which the value moves for one per cent of the line, along that path:
    terms of a sum divide it, factors of a product each carry all of it, divisors count negative.
    JSON has every line once, with the share that each of its inputs carries.
    """
    if depth < 0:
        raise InputError(f"depth: expected a whole number >= 0, got {depth}")
    if not 0 <= least_share <= 1:
        raise InputError(f"--least-share: expected a number from 0 to 1, got {least_share:g}")
    answer = receipt(
        target,
        switch=not no_switch,
        intervals=not no_interval,
        fail_on_violated=fail_on_violated,
        allow_conflicts=allow_conflicts,
        **options.given(preset, assign, variant, includes, model_config, correlate, offer),
    )
    return verdict_report(
        answer,
        lambda canvas: _lines(answer.receipt, depth, least_share, canvas),
        as_json,
        details=details(answer.receipt.resolution),
    )


def _lines(itemized: "Receipt", depth: int, least_share: float, canvas: Canvas) -> Iterator[Line]:
    resolution = itemized.resolution
    yield answer_line(resolution)
    yield from violation_lines(resolution.constraints, canvas)
    yield ""
    rows = [_row(path) for path in itemized.paths(depth, least_share)]
    yield from table(("share", "line", "value"), rows, canvas, right=(0, 2))
    many = count(len(itemized.lines), "variable")
    yield (
        (
            f"{many} in all; +N: inputs left out, which --depth or --least-share 0 list",
            styles.FAINT,
        ),
    )
    if resolution.missing:
        yield ""
        yield from missing_table(resolution.missing, canvas)


def _row(path: "PathLine") -> tuple[Part, ...]:
    entry = path.line.entry
    share = "-" if path.share is None else f"{path.share:.1%}"
    if entry.value is None:
        value: Part = ("missing" if entry.status == "missing" else "unknown", styles.BAD)
    else:
        shown = entry.variable.figure(entry.value, path.line.lower, path.line.upper)
        value = (f"{shown.text}{shown.interval}", styles.VALUE)
    marks = [] if entry.relation else [entry.status]
    if entry.relation and entry.relation.name != entry.variable.name:
        marks = [f"by {entry.relation.name}"]
    if path.is_repeated:
        marks = ["above"]
    elif path.left_out:
        marks.append(f"+{path.left_out}")
    beside = f"  ({', '.join(marks)})" if marks else ""
    return (share, (f"{'  ' * path.depth}{entry.variable.name}{beside}", styles.NAME), value)
