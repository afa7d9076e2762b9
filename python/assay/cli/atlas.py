"""`assay atlas` and `assay root`: the layers of the stack, and what one root would take."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from assay import stack
from assay.cli import options
from assay.cli.output import FAINT, NAME, VALUE, Canvas, Line, Part, Report, count, facts, table
from assay.cli.question import read_question
from assay.model.auditing.atlas import Crossing, Layer, Pressure
from assay.scenario import built_in


def atlas_command(
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="VARIABLE", help="Also how it depends on each layer."),
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
    from assay.model.auditing.atlas import crossings, layers, pressure

    question = read_question(preset, assign, None, includes)
    registry = question.registry
    found, borders = layers(registry), crossings(registry)
    known = question.inputs.values if question.given else None
    pressed = None if target is None else pressure(registry, target, known)
    data: dict[str, Any] = {
        "layers": [layer.to_data() for layer in found],
        "crossings": [crossing.to_data() for crossing in borders],
        "pressure": None if pressed is None else pressed.to_data(),
    }
    return Report(
        data,
        lambda canvas: _atlas_lines(found, borders, pressed, canvas),
        as_json,
        notes=question.notes,
    )


def _atlas_lines(
    found: list[Layer], borders: list[Crossing], pressed: Pressure | None, canvas: Canvas
) -> Iterator[Line]:
    rows: list[tuple[Part, ...]] = []
    for layer in found:
        into = sum(c.edges for c in borders if c.target == layer.name)
        out = sum(c.edges for c in borders if c.source == layer.name)
        numbers = (layer.variables, sum(layer.roots.values()), layer.relations, into, out)
        rows.append(((layer.name, NAME), *map(str, numbers), layer.meaning))
    header = ("layer", "variables", "roots", "relations", "in", "out", "about")
    yield from table(header, rows, canvas, right=(1, 2, 3, 4, 5))
    yield (("in and out: edges from and to other layers", FAINT),)
    if pressed is None:
        return
    yield ""
    yield ((pressed.target, NAME), " depends on")
    yield ""
    pressed_rows: list[tuple[Part, ...]] = [
        (
            (part.name, NAME),
            (str(part.variables), VALUE),
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
    from assay.scenario.roots import report_root

    registry = stack.registry()
    registry.variable(name)
    found = report_root(registry, name, [built_in.preset(each) for each in built_in.presets()])

    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((name, NAME), f"  {found.variable.meaning}")
        yield ""
        yield from facts(
            (
                ("unit", found.variable.display.text),
                ("boundary", found.boundary),
                ("family", found.variable.family),
                ("dependents", count(found.dependents, "relation")),
                ("targets", count(len(found.targets), "target")),
                ("used by", ", ".join(found.used_by)),
            ),
            canvas,
        )
        rows = [
            ((value.preset, NAME), value.text, value.kind, value.source) for value in found.presets
        ]
        if rows:
            yield ""
            yield from table(("preset", "value", "kind", "source"), rows, canvas)
        groups = [
            ((g.group, NAME), str(len(g.entries)), ", ".join(g.entries)) for g in found.groups
        ]
        if groups:
            yield ""
            yield from table(("catalog", "entries", "names"), groups, canvas, right=(1,))
        yield ""
        for step in found.steps:
            yield f"- {step}"

    return Report(found.to_data(), text, as_json)
