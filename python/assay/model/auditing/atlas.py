"""The atlas: the layers of the stack, what is in each, and what crosses their borders.

A layer is a scope. They are listed from the whole site down to the transistor: the opposite of the
order in which they are declared, since a scope refers to itself and to earlier ones only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from assay.model.auditing.debt import UNDECLARED
from assay.model.graphs import digraph

if TYPE_CHECKING:
    from assay.model.language.relations import Relation
    from assay.model.registry import Registry


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its counts, and the references behind its relations by kind."""

    name: str
    meaning: str
    variables: int
    constants: int
    computed: int
    roots: dict[str, int]
    """Roots by boundary."""
    relations: int
    constraints: int
    references: dict[str, int]
    targets: tuple[str, ...]


class Crossing(NamedTuple):
    """Variables of one layer that relations of another use, and how many edges that makes."""

    source: str
    target: str
    edges: int
    variables: tuple[str, ...]


class LayerPressure(NamedTuple):
    """How a target depends on a layer.

    `by_distance` counts the layer's variables by the number of relations to the target; `given`
    and `missing` count its inputs with and without a value, None without a scenario.
    """

    name: str
    variables: int
    roots: int
    by_distance: tuple[int, ...]
    given: int | None
    missing: int | None


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a target presses on, layer by layer, and what crosses borders on the way."""

    target: str
    layers: tuple[LayerPressure, ...]
    crossings: tuple[Crossing, ...]


def layers(registry: Registry) -> list[Layer]:
    """Every layer, from the top of the stack down."""
    by_scope: dict[str, list[Relation]] = {name: [] for name in registry.scopes}
    for relation in registry.relations.values():
        by_scope[relation.scope].append(relation)
    described = []
    for name, meaning in reversed(registry.scopes.items()):
        own = [v for v in registry.variables.values() if v.scope == name]
        roots = [v for v in own if v.is_root]
        relations = by_scope[name]
        described.append(
            Layer(
                name=name,
                meaning=meaning,
                variables=len(own),
                constants=sum(c.scope == name for c in registry.constants.values()),
                computed=len(own) - len(roots),
                roots=dict(Counter(v.boundary or UNDECLARED for v in roots)),
                relations=len(relations),
                constraints=sum(r.name in registry.constraints for r in relations),
                references=dict(Counter(r.reference.kind for r in relations)),
                targets=tuple(v.name for v in own if v.target),
            )
        )
    return described


def crossings(registry: Registry, inside: Collection[str] | None = None) -> list[Crossing]:
    """What crosses the borders of layers, in all or among the variables `inside`."""
    edges: Counter[tuple[str, str]] = Counter()
    names: dict[tuple[str, str], dict[str, None]] = {}
    for relation in registry.equations.values():
        if inside is not None and relation.variable not in inside:
            continue
        target = registry.variables[relation.variable].scope
        for name in relation.inputs:
            source = registry.variable(name).scope
            if source != target and (inside is None or name in inside):
                edges[source, target] += 1
                names.setdefault((source, target), {})[name] = None
    return [
        Crossing(source, target, count, tuple(names[source, target]))
        for (source, target), count in edges.most_common()
    ]


def pressure(registry: Registry, target: str, known: Collection[str] | None = None) -> Pressure:
    """How a target depends on every layer; `known` are the variables that have a value."""
    registry.variable(target)
    distances = digraph.distances(target, registry.graph.predecessors)
    deepest = max(distances.values())
    pressed = []
    for scope in reversed(registry.scopes):
        near = {n: d for n, d in distances.items() if registry.variable(n).scope == scope}
        roots = [n for n in near if n in registry.variables and registry.variables[n].is_root]
        counts = Counter(near.values())
        given = None if known is None else _count(roots, known)
        pressed.append(
            LayerPressure(
                scope,
                len(near),
                len(roots),
                tuple(counts[distance] for distance in range(deepest + 1)),
                given,
                None if given is None else len(roots) - given,
            )
        )
    return Pressure(target, tuple(pressed), tuple(crossings(registry, distances)))


def _count(names: Iterable[str], known: Collection[str]) -> int:
    return sum(name in known for name in names)
