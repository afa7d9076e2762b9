"""`assay atlas` and `assay root`: the layers of the stack, and what one root would take."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, count, facts, report_of, table
from assay.scenario.questions.layers import AtlasAnswer, atlas, root


def atlas_command(
    target: Annotated[
        str | None, option("--target VARIABLE", "Also how it depends on each layer.")
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    includes: options.With = None,
    as_json: options.Json = False,
) -> Report:
    """List the layers of the stack and their borders.

    Layers go from the site down to the transistor. With a target, each shows how many variables
    the target depends on there; with a scenario, also how many of its inputs have a value.
    """
    answer = atlas(target, preset=preset, assign=assign, includes=includes)
    return report_of(answer, lambda canvas: _atlas_lines(answer, canvas), as_json)


def _atlas_lines(answer: AtlasAnswer, canvas: Canvas) -> Iterator[Line]:
    rows: list[tuple[Part, ...]] = []
    for layer in answer.layers:
        into = sum(c.edges for c in answer.crossings if c.target == layer.name)
        out = sum(c.edges for c in answer.crossings if c.source == layer.name)
        numbers = (layer.variables, sum(layer.roots.values()), layer.relations, into, out)
        rows.append(((layer.name, styles.NAME), *map(str, numbers), layer.meaning))
    header = ("layer", "variables", "roots", "relations", "in", "out", "about")
    yield from table(header, rows, canvas, right=(1, 2, 3, 4, 5))
    yield (("in and out: edges from and to other layers", styles.FAINT),)
    pressed = answer.pressure
    if pressed is None:
        return
    yield ""
    yield ((pressed.target, styles.NAME), " depends on")
    yield ""
    pressed_rows: list[tuple[Part, ...]] = [
        (
            (part.name, styles.NAME),
            (str(part.variables), styles.VALUE),
            str(part.roots),
            "-" if part.missing is None else str(part.missing),
        )
        for part in pressed.layers
        if part.variables
    ]
    columns = ("layer", "variables", "roots", "without a value")
    yield from table(columns, pressed_rows, canvas, right=(1, 2, 3))


def root_command(name: options.Target, as_json: options.Json = False) -> Report:
    """Say what it would take to resolve a root.

    Lists why the model ends there, what depends on it, and which presets and catalog entries give
    it a value.
    """
    answer = root(name)
    report = answer.root

    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((name, styles.NAME), f"  {report.variable.meaning}")
        yield ""
        yield from facts(
            (
                ("unit", report.variable.display.text),
                ("boundary", report.boundary),
                ("family", report.variable.family),
                ("dependents", count(report.dependents, "relation")),
                ("targets", count(len(report.targets), "target")),
                ("used by", ", ".join(report.used_by)),
            ),
            canvas,
        )
        rows = [
            ((value.preset, styles.NAME), value.text, value.kind, value.source)
            for value in report.presets
        ]
        if rows:
            yield ""
            yield from table(("preset", "value", "kind", "source"), rows, canvas)
        groups = [
            ((g.group, styles.NAME), str(len(g.entries)), ", ".join(g.entries))
            for g in report.groups
        ]
        if groups:
            yield ""
            yield from table(("catalog", "entries", "names"), groups, canvas, right=(1,))
        yield ""
        for step in report.steps:
            yield f"- {step}"

    return report_of(answer, text, as_json)
