"""Open work on a model, weighted by the relations that depend on each item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from assay.model.registry import Registry

_ROOT_WORK = {
    "needs-source": ("source root", "its value needs a source"),
    "decompose": ("decompose root", "a further layer can compute it"),
    None: ("declare boundary", "it does not say why the model ends there"),
}


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One thing to do, and how much rests on it.

    `weight` lies between 0 and 1: the share of all relations that depend on the thing or, for
    an assumed input, of the variance of the `target` that depends on it most.
    """

    kind: str
    name: str
    reason: str
    weight: float
    dependents: int
    target: str | None = None


class WorkGroup(NamedTuple):
    """Items of one kind in one layer: how many, the greatest weight, and the item that has it."""

    layer: str
    kind: str
    items: int
    weight: float
    heaviest: str


def group_by_layer(items: Iterable[WorkItem]) -> list[WorkGroup]:
    """Work by layer and kind, the layer with the weightiest item first."""
    groups: dict[tuple[str, str], list[WorkItem]] = {}
    for item in items:
        groups.setdefault((item.name.partition(".")[0], item.kind), []).append(item)
    grouped = [
        WorkGroup(layer, kind, len(members), (top := max(members, key=_weight)).weight, top.name)
        for (layer, kind), members in groups.items()
    ]
    layers: dict[str, float] = {}
    for group in grouped:
        layers[group.layer] = max(layers.get(group.layer, 0.0), group.weight)
    return sorted(grouped, key=lambda g: (-layers[g.layer], g.layer, -g.weight, g.kind))


def _weight(item: WorkItem) -> float:
    return item.weight


def model_work(registry: Registry) -> list[WorkItem]:
    """Roots that need a source or can be decomposed, and relations without a source or a target."""
    return [*_root_items(registry), *_relation_items(registry)]


def _root_items(registry: Registry) -> list[WorkItem]:
    counts, total = registry.graph.dependent_counts(), max(len(registry.relations), 1)
    items = []
    for name in registry.roots:
        boundary = registry.variables[name].boundary
        if boundary in _ROOT_WORK:
            kind, reason = _ROOT_WORK[boundary]
            items.append(WorkItem(kind, name, reason, counts[name] / total, counts[name]))
    return items


def _relation_items(registry: Registry) -> list[WorkItem]:
    counts, total = registry.graph.dependent_counts(), max(len(registry.relations), 1)
    reached = registry.graph.reachable().relations
    items = []
    for name, relation in registry.relations.items():
        count = counts[relation.variable] if relation.variable else 0
        if relation.reference.kind == "unsourced":
            # The relation itself rests on its source, too.
            weight = (count + 1) / total
            items.append(WorkItem("source relation", name, "it has no source", weight, count))
        if name not in reached and not relation.library:
            reason = "it reaches no target and is not tagged library"
            items.append(WorkItem("connect relation", name, reason, 1 / total, count))
    return items
