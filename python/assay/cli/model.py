"""`assay stats`, `list`, `show` and `cone`: inspect the model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from assay import stack
from assay.cli import options
from assay.cli.describe import (
    brief_relation_data,
    brief_variable_data,
    relation_data,
    relation_lines,
    role_of,
    variable_data,
    variable_lines,
)
from assay.cli.output import (
    FAINT,
    NAME,
    Canvas,
    Line,
    Report,
    count,
    cut,
    cut_notes,
    facts,
    table,
    wrapped,
)
from assay.cli.question import one_of
from assay.errors import InputError, unknown_name
from assay.model.graphs.subgraph import Direction
from assay.model.language.variables import Variable
from assay.model.registry import Registry
from assay.scenario import built_in

if TYPE_CHECKING:
    from assay.model.language.relations import Relation
    from assay.scenario.named_scenario import Preset

Item = TypeVar("Item")

DIRECTIONS: Final[tuple[Direction, ...]] = ("up", "down", "both")


def stats_command(as_json: options.Json = False) -> Report:
    """Count the declarations of the model."""
    from assay.model.auditing.audit import stats

    counts = stats(stack.registry())

    def text(canvas: Canvas) -> Iterable[Line]:
        width = max(len(f"{number:,}") for number in counts.values())
        return facts(
            ((name.replace("_", " "), f"{number:{width},}") for name, number in counts.items()),
            canvas,
        )

    return Report(counts, text, as_json)


def list_command(
    match: Annotated[
        str | None,
        typer.Option("--filter", metavar="TEXT", help="Only entries whose line contains the text."),
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", help="Only what this scope declares.")
    ] = None,
    roots: Annotated[
        bool, typer.Option("--roots", help="Only variables that no relation defines.")
    ] = False,
    targets: Annotated[
        bool, typer.Option("--targets", help="Only variables declared as targets.")
    ] = False,
    relations: Annotated[
        bool, typer.Option("--relations", help="List relations instead of variables.")
    ] = False,
    presets: Annotated[
        bool, typer.Option("--presets", help="List scenarios instead of variables.")
    ] = False,
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
        return _list_presets(match, limit, as_json)
    registry = stack.registry()
    if scope is not None and scope not in registry.scopes:
        raise unknown_name("scope", scope, registry.scopes)
    if relations:
        return _list_relations(registry, match, scope, limit, as_json)
    found = [
        variable
        for variable in (*registry.constants.values(), *registry.variables.values())
        if _matches(match, variable.name, variable.symbol, variable.meaning)
        and scope in (None, variable.scope)
        and (not roots or role_of(variable) == "root")
        and (not targets or variable.target)
    ]

    def text(shown: Sequence[Variable], canvas: Canvas) -> Iterable[Line]:
        rows = [((v.name, NAME), v.display.text, v.meaning) for v in shown]
        return table(("variable", "unit", "meaning"), rows, canvas)

    return _cut_list("variables", found, variable_data, text, limit, as_json)


def _cut_list(
    noun: str,
    found: Sequence[Item],
    data: Callable[[Item], Any],
    text: Callable[[Sequence[Item], Canvas], Iterable[Line]],
    limit: int | None,
    as_json: bool,
) -> Report:
    """A list of at most so many rows, which says what it leaves out; in JSON all by default."""
    rows_at_most = options.MAX_LISTED if limit is None else limit
    left_out = cut(rows_at_most, **{noun: found})

    def lines(canvas: Canvas) -> Iterator[Line]:
        yield from text(found[: rows_at_most or None], canvas)
        if left_out:
            yield ""
            yield ((left_out, FAINT),)

    shown = [data(item) for item in found[: limit or None]]
    return Report(shown, lines, as_json, notes=cut_notes(left_out))


def _refuse_together(some: Mapping[str, bool], others: Mapping[str, bool]) -> None:
    for option, is_given in some.items():
        for other in (name for name, is_other in others.items() if is_given and is_other):
            raise InputError(f"{option} and {other} cannot be combined", f"drop {other}")


def _list_relations(
    registry: Registry, match: str | None, scope: str | None, limit: int | None, as_json: bool
) -> Report:
    found = [
        relation
        for relation in registry.relations.values()
        if _matches(match, relation.name, relation.text, relation.meaning)
        and scope in (None, relation.scope)
    ]

    def text(shown: "Sequence[Relation]", canvas: Canvas) -> Iterator[Line]:
        for relation in shown:
            yield ((relation.name, NAME), (f"  {relation.kind}", FAINT))
            yield from wrapped(relation.text, canvas, "    ")

    return _cut_list("relations", found, relation_data, text, limit, as_json)


def _list_presets(match: str | None, limit: int | None, as_json: bool) -> Report:
    found = [built_in.preset(name) for name in built_in.presets()]
    found = [preset for preset in found if _matches(match, preset.name, preset.description)]

    def data(preset: "Preset") -> dict[str, Any]:
        return {
            "name": preset.name,
            "description": preset.description,
            "values": len(preset.assignments),
            "targets": [{"label": label, "variable": name} for label, name in preset.targets],
        }

    def text(shown: "Sequence[Preset]", canvas: Canvas) -> Iterable[Line]:
        rows = [((preset.name, NAME), preset.description) for preset in shown]
        return table(("preset", "description"), rows, canvas)

    return _cut_list("presets", found, data, text, limit, as_json)


def _matches(match: str | None, *texts: str) -> bool:
    return match is None or any(match.casefold() in text.casefold() for text in texts)


def show_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A variable, relation or block.")],
    as_json: options.Json = False,
) -> Report:
    """Describe a variable, relation or block."""
    registry = stack.registry()
    if name in registry.variables or name in registry.constants:
        variable = registry.variable(name)
        return Report(
            variable_data(variable, registry),
            lambda canvas: variable_lines(registry, variable, canvas),
            as_json,
        )
    if name in registry.relations:
        relation = registry.relations[name]
        return Report(
            relation_data(relation, registry),
            lambda canvas: relation_lines(registry, relation, canvas),
            as_json,
        )
    if name in registry.blocks:
        return _show_block(registry, name, as_json)
    known = dict.fromkeys(
        (*registry.variables, *registry.constants, *registry.relations, *registry.blocks)
    )
    error = unknown_name("name", name, known)
    error.hint = error.hint or "assay list shows the names"
    raise error


def _show_block(registry: Registry, name: str, as_json: bool) -> Report:
    block = registry.blocks[name]
    members = [registry.variables[member] for member in block.members]
    data = {
        "name": block.name,
        "kind": "block",
        "scope": block.scope,
        "members": [
            {"name": member.name, "relations": [r.text for r in member.defining_equations]}
            for member in members
        ],
    }

    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((block.name, NAME), "  simultaneous block")
        for member in members:
            for relation in member.defining_equations:
                yield from wrapped(relation.text, canvas, "    ")

    return Report(data, text, as_json)


def cone_command(
    target: options.Target,
    direction: Annotated[
        str,
        typer.Option(
            "--direction",
            metavar="|".join(DIRECTIONS),
            help="up: inputs of the variable; down: its dependents; or both.",
        ),
    ] = "up",
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", help="Most relations to follow.")
    ] = None,
    brief: Annotated[
        bool, typer.Option("--brief", help="JSON with names, layers and inputs only.")
    ] = False,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """List the inputs or the dependents of a variable."""
    part = stack.registry().graph.subgraph(
        target, one_of("direction", direction, DIRECTIONS), depth
    )
    found: list[Variable] = [*part.constants.values(), *part.variables.values()]
    relations = list(part.relations.values())
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, variables=found, relations=relations)

    def data() -> dict[str, Any]:
        asked: dict[str, Any] = {"variable": target, "direction": direction, "depth": depth}
        if brief:
            return {
                **asked,
                "variables": [brief_variable_data(variable) for variable in found],
                "relations": [brief_relation_data(relation) for relation in relations],
            }
        return {
            **asked,
            "variables": [variable_data(variable) for variable in found],
            "relations": [relation_data(relation) for relation in relations],
            "edges": [edge._asdict() for edge in part.edges],
        }

    def text(canvas: Canvas) -> Iterator[Line]:
        roots = sum(role_of(variable) == "root" for variable in found)
        yield (
            (target, NAME),
            f": {count(len(found), 'variable')}, {count(roots, 'root')}, "
            f"{count(len(part.relations), 'relation')}",
        )
        yield ""
        shown = found[: rows_at_most or None]
        rows = [(role_of(v), (v.name, NAME), v.display.text, v.meaning) for v in shown]
        yield from table(("role", "variable", "unit", "meaning"), rows, canvas)
        yield ""
        for relation in relations[: rows_at_most or None]:
            yield from wrapped(relation.text, canvas)
        if left_out:
            yield ""
            yield ((left_out, FAINT),)

    return Report(data, text, as_json, notes=cut_notes(left_out))
