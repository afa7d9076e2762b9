"""A subgraph of a registry: variables, constants and the relations between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

Direction = Literal["up", "down", "both"]
DIRECTIONS = ("up", "down", "both")


class Edge(NamedTuple):
    """A variable, one that is computed from it, and the relation."""

    source: str
    target: str
    relation: str


@dataclass(frozen=True)
class Subgraph:
    """A part of a registry around one variable, inputs before what is computed from them.

    `relations` holds the relations with at least one edge inside, then the inequalities whose
    variables all lie inside.
    """

    registry: Declarations = field(repr=False)
    center: str
    direction: Direction
    depth: int | None
    variables: dict[str, Variable]
    constants: dict[str, Constant]
    relations: dict[str, Relation]

    @property
    def edges(self) -> list[Edge]:
        """Edges with both ends inside."""
        return edges_within(self.relations.values(), {*self.variables, *self.constants})


def edges_within(relations: Iterable[Relation], inside: set[str]) -> list[Edge]:
    """Edges of relations between variables that lie inside."""
    return [
        Edge(name, relation.variable, relation.name)
        for relation in relations
        if relation.variable in inside
        for name in relation.inputs
        if name in inside
    ]
