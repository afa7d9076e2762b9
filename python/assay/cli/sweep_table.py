"""The table of a sweep, whether its axes are variables or entries of the catalog."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.cli import styles
from assay.cli.output import Canvas, Line, Part, count, table, wrapped
from assay.cli.verdicts import STATUS
from assay.model.language.figures import figure_column
from assay.model.language.quantity import format_number
from assay.model.language.variables import Variable
from assay.scenario.questions.sweeping import CatalogSweep

if TYPE_CHECKING:
    from assay.model.optimizing.sweep_summary import SweepSummary, TargetSummary

Rows = Sequence[Mapping[str, Any]]


def sweep_lines(
    rows: Rows,
    axes: Sequence[Variable],
    targets: Sequence[Variable],
    conditions: Mapping[str, str],
    canvas: Canvas,
    groups: Sequence[str] = (),
) -> Iterator[Line]:
    """What each column is, the rows, and the constraints that some of them violate.

    Rows hold values in display units, `constraints`, `violated`, and `missing` where inputs are;
    `groups` are the columns of catalog entries, `conditions` the constraints as text.
    """
    variables = (*axes, *targets)
    symbols = [variable.symbol for variable in variables]
    if len(set(symbols)) < len(symbols):
        symbols = [variable.name for variable in variables]
    columns = [_column(variable, rows, variable in axes) for variable in variables]
    for symbol, variable, (unit, _) in zip(symbols, variables, columns, strict=True):
        yield f"{symbol}: {variable.name} [{unit}], {variable.meaning}"
    yield ""
    cells: list[tuple[Part, ...]] = []
    for position, row in enumerate(rows):
        entries = [(row[group], styles.NAME) for group in groups]
        numbers = [(texts[position], styles.VALUE) for _, texts in columns]
        cells.append((*entries, *numbers, _verdict(row)))
    right = tuple(range(len(groups), len(groups) + len(variables)))
    yield from table((*groups, *symbols, "constraints"), cells, canvas, right=right)
    violations = Counter(name for row in rows for name in row["violated"])
    for name, times in violations.items():
        where = f"violated at {times:,} of {count(len(rows), 'point')}"
        yield from wrapped(f"{where}: {name}: {conditions[name]}", canvas, style=styles.BAD)


def entry_lines(swept: CatalogSweep, rows: Rows, canvas: Canvas) -> Iterator[Line]:
    """Rows of a sweep over catalog entries."""
    return sweep_lines(
        rows, swept.axes, swept.targets, swept.conditions, canvas, groups=swept.groups
    )


def summary_lines(summary: "SweepSummary", canvas: Canvas) -> Iterator[Line]:
    """What the points come to: each target's ends and mean, and the constraints violated."""
    points = count(summary.points, "point")
    yield f"{points}, {summary.satisfying:,} of them satisfy every constraint that is judged"
    if summary.undefined:
        yield f"{count(summary.undefined, 'point')} without a value"
    for variable in summary.targets:
        of = summary.of[variable.name]
        yield ""
        yield ((variable.name, styles.NAME), f": {variable.meaning}")
        rows = list(_ends(of))
        # In one unit, with as many digits as tell the ends apart.
        values = [variable.display.to_coherent(value) for _, value, _ in rows]
        unit, texts = figure_column(values, variable.display)
        cells = [
            (label, (text, styles.VALUE), where)
            for (label, _, where), text in zip(rows, texts, strict=True)
        ]
        yield from table(("", f"value [{unit}]", "at"), cells, canvas)
        yield ((f"sha256 of all values: {of.digest}", styles.FAINT),)
    for name, times in summary.violations.items():
        where = f"violated at {times:,} of {points}"
        yield from wrapped(f"{where}: {name}: {summary.conditions[name]}", canvas, style=styles.BAD)


def _ends(summary: "TargetSummary") -> Iterator[tuple[str, float, str]]:
    """The ends and the mean in the display unit, and where they are."""
    for name, end in summary.ends.items():
        if name.endswith("_satisfying") and end == summary.ends[name.removesuffix("_satisfying")]:
            # The end of all points is that of those that satisfy every constraint.
            continue
        label = name.replace("_", ", ")
        if end is not None:
            yield label, end[0], ", ".join(f"{n} = {format_number(v)}" for n, v in end[1].items())
        elif summary.defined:
            yield label, math.nan, "no point"
    if summary.mean is not None:
        yield "mean", summary.mean, ""


def _column(variable: Variable, rows: Rows, is_axis: bool) -> tuple[str, list[str]]:
    """The unit and the texts of a column; an axis keeps the variable's unit and all digits."""
    shown = [row[variable.name] for row in rows]
    if is_axis:
        texts = ["-" if value is None else format_number(value) for value in shown]
        return variable.display.text, texts
    values = [math.nan if v is None else variable.display.to_coherent(v) for v in shown]
    return figure_column(values, variable.display)


def _verdict(row: Mapping[str, Any]) -> Part:
    if missing := row.get("missing"):
        return (f"{count(len(missing), 'input')} missing: {missing[0]}", styles.BAD)
    status, style = STATUS[row["constraints"]]
    return (f"{status}: {', '.join(row['violated'])}" if row["violated"] else status, style)
