"""The declarations of the model: how many, which, what each is, and what depends on what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from assay import stack
from assay.answers import Answer
from assay.errors import AssayError, one_of, unknown_name
from assay.keywords import takes
from assay.model.declarations import SimultaneousBlock
from assay.model.graphs.subgraph import Direction, Subgraph
from assay.model.language.relations import Relation
from assay.model.language.variables import Variable
from assay.model.registry import Registry
from assay.scenario import built_in
from assay.scenario.question import GIVEN, Given, read_question
from assay.scenario.questions.describing import (
    brief_relation_data,
    brief_variable_data,
    relation_data,
    role_of,
    variable_data,
)
from assay.scenario.questions.relevance import ranked

if TYPE_CHECKING:
    from assay.scenario.named_scenario import Preset

Item = TypeVar("Item")

DIRECTIONS: Final[tuple[Direction, ...]] = ("up", "down", "both")


@dataclass(frozen=True)
class StatsAnswer(Answer):
    """Numbers of declarations, by kind."""

    counts: Mapping[str, int]

    def to_json(self) -> dict[str, int]:
        """The numbers as JSON data."""
        return dict(self.counts)


def stats() -> StatsAnswer:
    """Count the declarations of the model."""
    from assay.model.auditing.audit import stats

    return StatsAnswer(stats(stack.registry()))


@dataclass(frozen=True)
class ListAnswer(Answer, Generic[Item]):
    """Declarations or scenarios; as JSON `limit` of them, 0 for all."""

    items: Sequence[Item]
    data: Callable[[Item], Any] = field(repr=False)
    limit: int = 0

    def to_json(self) -> list[Any]:
        """What is listed, as JSON data."""
        return [self.data(item) for item in self.items[: self.limit or None]]


def list_variables(
    match: str | None = None,
    *,
    scope: str | None = None,
    roots: bool = False,
    targets: bool = False,
    limit: int = 0,
) -> ListAnswer[Variable]:
    """Variables and constants whose name, symbol and meaning contain every word of a text, nearest first."""
    registry = stack.registry()
    _check_scope(registry, scope)
    variables = [
        variable
        for variable in (*registry.constants.values(), *registry.variables.values())
        if _matches(match, variable.name, variable.symbol, variable.meaning)
        and scope in (None, variable.scope)
        and (not roots or role_of(variable) == "root")
        and (not targets or variable.target)
    ]
    nearest = ranked(
        variables, match, lambda variable: (variable.name, variable.meaning),
        lambda variable: variable.target,
    )  # fmt: skip
    return ListAnswer(nearest, variable_data, limit)


def list_relations(
    match: str | None = None, *, scope: str | None = None, limit: int = 0
) -> ListAnswer[Relation]:
    """Relations whose name, formula and meaning contain every word of a text, nearest first."""
    registry = stack.registry()
    _check_scope(registry, scope)
    relations = [
        relation
        for relation in registry.relations.values()
        if _matches(match, relation.name, relation.text, relation.meaning)
        and scope in (None, relation.scope)
    ]
    nearest = ranked(relations, match, lambda relation: (relation.name, relation.meaning))
    return ListAnswer(nearest, relation_data, limit)


def list_presets(match: str | None = None, *, limit: int = 0) -> ListAnswer[Preset]:
    """Built-in scenarios whose name and description contain every word of a text, nearest first."""
    presets = [built_in.preset(name) for name in built_in.presets()]
    matching = [preset for preset in presets if _matches(match, preset.name, preset.description)]
    nearest = ranked(matching, match, lambda preset: (preset.name, preset.description))
    return ListAnswer(nearest, _preset_data, limit)


def _preset_data(preset: Preset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "description": preset.description,
        "values": len(preset.assignments),
        "targets": [{"label": label, "variable": name} for label, name in preset.targets],
    }


def _check_scope(registry: Registry, scope: str | None) -> None:
    if scope is not None and scope not in registry.scopes:
        raise unknown_name("scope", scope, registry.scopes)


def _matches(match: str | None, *texts: str) -> bool:
    """Whether the texts together hold every word that was asked for."""
    if match is None:
        return True
    together = "\n".join(texts).casefold()
    return all(word in together for word in match.casefold().split())


@dataclass(frozen=True)
class DescribeAnswer(Answer):
    """A variable, relation or block of the model."""

    registry: Registry
    item: Variable | Relation | SimultaneousBlock

    def to_json(self) -> dict[str, Any]:
        """The description as JSON data, with formulas as LaTeX and their unit check."""
        if isinstance(self.item, Variable):
            return variable_data(self.item, self.registry)
        if isinstance(self.item, Relation):
            return relation_data(self.item, self.registry)
        members = [self.registry.variables[member] for member in self.item.members]
        return {
            "name": self.item.name,
            "kind": "block",
            "scope": self.item.scope,
            "members": [
                {"name": member.name, "relations": [r.text for r in member.defining_equations]}
                for member in members
            ],
        }


def describe(name: str) -> DescribeAnswer:
    """Describe a variable, relation or block."""
    registry = stack.registry()
    if name in registry.variables or name in registry.constants:
        return DescribeAnswer(registry, registry.variable(name))
    if name in registry.relations:
        return DescribeAnswer(registry, registry.relations[name])
    if name in registry.blocks:
        return DescribeAnswer(registry, registry.blocks[name])
    known = dict.fromkeys(
        (*registry.variables, *registry.constants, *registry.relations, *registry.blocks)
    )
    error = unknown_name("name", name, known)
    error.hint = error.hint or "assay list shows the names"
    raise error


@dataclass(frozen=True)
class ConeAnswer(Answer):
    """What a variable depends on, or what depends on it."""

    target: str
    direction: str
    depth: int | None
    part: Subgraph
    brief: bool

    @property
    def variables(self) -> list[Variable]:
        """Constants and variables of the cone."""
        return [*self.part.constants.values(), *self.part.variables.values()]

    @property
    def relations(self) -> list[Relation]:
        """Relations of the cone."""
        return list(self.part.relations.values())

    def to_json(self) -> dict[str, Any]:
        """Variables, relations and edges as JSON data; `brief` has names, layers and inputs."""
        asked = {"variable": self.target, "direction": self.direction, "depth": self.depth}
        if self.brief:
            return {
                **asked,
                "variables": [brief_variable_data(variable) for variable in self.variables],
                "relations": [brief_relation_data(relation) for relation in self.relations],
            }
        return {
            **asked,
            "variables": [variable_data(variable) for variable in self.variables],
            "relations": [relation_data(relation) for relation in self.relations],
            "edges": [edge._asdict() for edge in self.part.edges],
        }


@takes(GIVEN)
def cone(
    target: str,
    direction: str = "up",
    depth: int | None = None,
    *,
    brief: bool = False,
    **given: Unpack[Given],
) -> ConeAnswer:
    """The inputs of a variable (`up`), its dependents (`down`), or both.

    With a scenario, of several relations of a variable only the one in use is followed.
    """
    registry = stack.registry()
    part = registry.graph.subgraph(target, one_of("direction", direction, DIRECTIONS), depth)
    if not any(given.values()):
        return ConeAnswer(target, direction, depth, part, brief)
    from assay.model.resolving.resolve import make_resolver

    question = read_question(**given)
    resolver = make_resolver(registry, question.inputs, question.variants)
    for name in part.variables:
        # What has no value here depends on nothing here.
        with suppress(AssayError):
            resolver.value(name)
    inside = resolver.cone(target) if direction != "down" else {target}
    if direction != "up":
        inside |= {name for name in part.variables if target in resolver.cone(name)}
    used = {relation.name for name, relation in resolver.chosen.items() if name in inside}
    kept = replace(
        part,
        variables={n: v for n, v in part.variables.items() if n in inside},
        constants={n: c for n, c in part.constants.items() if n in inside},
        relations={
            name: relation
            for name, relation in part.relations.items()
            if name in used or (not relation.variable and inside.issuperset(relation.inputs))
        },
    )
    return ConeAnswer(target, direction, depth, kept, brief, notes=list(question.notes))
