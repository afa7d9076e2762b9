"""Walks: the chain of relations from one variable to another, and what each passes on.

The elasticity of a step is the per cent by which a variable follows one per cent of the variable before it, by that
relation alone; their product is what the walk carries. Of the ways along the relations in use it is the one that
carries most; all ways together carry the elasticity of one end by the other. Where no relation in use leads on,
alternatives to a stated quantity are part of the graph too, at a price.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError, MissingInputsError, unknown_name
from assay.model.comparing.shares import shares
from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable
from assay.model.resolving.resolve import account

if TYPE_CHECKING:
    from assay.model.declarations import Declarations
    from assay.model.registry import Registry
    from assay.model.resolving.resolver import Resolver

_ALTERNATIVE_COST: Final = 4
"""Steps that a walk goes round rather than choose an alternative that the scenario has not chosen."""
_NUDGE: Final = 1e-6
"""Relative change by which relations without a formula are differentiated."""


@dataclass(frozen=True, slots=True)
class WalkStep:
    """A variable of a walk; `relation` computes it from the variable before.

    `elasticity` is that of this step, `carried` the product from the start up to here.
    """

    variable: Variable
    value: float | None
    relation: Relation | None
    elasticity: float | None
    carried: float | None

    def to_data(self) -> dict[str, Any]:
        """The step as plain data, in the variable's display unit."""
        return {
            "variable": self.variable.name,
            "symbol": self.variable.symbol,
            "meaning": self.variable.meaning,
            "layer": self.variable.scope,
            "value": None if self.value is None else self.variable.shown(self.value),
            "unit": self.variable.display.text,
            "relation": None if self.relation is None else self.relation.name,
            "states": None if self.relation is None else self.relation.text,
            "elasticity": self.elasticity,
            "carried": self.carried,
        }


def starts_of(registry: Declarations, word: str) -> list[str]:
    """The variable of a name, or all that have a word in their names: `quark` is `nuclear.quarks.up`."""
    if word in registry.variables or word in registry.constants:
        return [word]
    names = (*registry.constants, *registry.variables)
    named = [n for n in names if any(part.startswith(word) for part in n.split("."))]
    if not named:
        raise unknown_name("variable", word, names, "assay list prints the variables")
    return named


def strongest_walk(
    resolver: Resolver, starts: Iterable[str], target: str
) -> tuple[str, list[Relation]] | None:
    """The start and the relations in use by which most of a change reaches the target; None without."""
    resolution = account(resolver, target, {})
    values = {step.variable.name: step.value for step in resolution.trace}
    ends = [name for name in starts if name in values and name != target]
    if resolution.value is None or not ends:
        return None
    local = shares(resolver.registry, resolution).local
    # By name: what arrives there of a change, and the step by which most of it does.
    reached: dict[str, tuple[float, Relation | None, str]] = dict.fromkeys(ends, (1.0, None, ""))
    for step in resolution.trace:
        name, relation = step.variable.name, step.relation
        if relation is None or name in ends:
            continue
        for needed in relation.inputs:
            # A variable that is not reached yet depends on this one in turn, as this one may on itself.
            if needed not in reached or needed == name:
                continue
            elasticity = local.get((name, needed))
            if elasticity is None:
                elasticity = _nudged(relation, needed, values)
            carried = reached[needed][0] * abs(elasticity or 0.0)
            if carried > reached.get(name, (0.0,))[0]:
                reached[name] = (carried, relation, needed)
    if target not in reached:
        return None
    way: list[Relation] = []
    name = target
    while (relation_to := reached[name][1]) is not None:
        way.append(relation_to)
        name = reached[name][2]
    return name, way[::-1]


def find_walk(
    registry: Registry,
    starts: Iterable[str],
    target: str,
    chosen: Mapping[str, str],
    left_out: Collection[str] = (),
) -> tuple[str, list[Relation]]:
    """The start and the relations of the cheapest walk to a target, without the relations left out."""
    registry.variable(target)
    users = registry.graph.users
    queue: list[tuple[int, int, str]] = []
    reached: dict[str, tuple[int, Relation | None, str]] = {}
    order = 0
    for start in starts:
        reached[start] = (0, None, "")
        heapq.heappush(queue, (0, order, start))
        order += 1
    first = list(reached)
    done: set[str] = set()
    while queue:
        cost, _, name = heapq.heappop(queue)
        if name in done:
            continue
        done.add(name)
        if name == target:
            break
        for relation in users[name]:
            if relation.name in left_out:
                continue
            follows = relation.variable
            price = cost + 1 + (0 if _is_used(registry, relation, chosen) else _ALTERNATIVE_COST)
            if follows not in done and (follows not in reached or price < reached[follows][0]):
                reached[follows] = (price, relation, name)
                heapq.heappush(queue, (price, order, follows))
                order += 1
    if target not in done:
        raise InputError(
            f"no relation leads from {' or '.join(first[:3])} to {target}",
            f"assay cone {first[0]} --direction down lists what depends on it",
        )
    way: list[Relation] = []
    name = target
    while (relation_to := reached[name][1]) is not None:
        way.append(relation_to)
        name = reached[name][2]
    return name, way[::-1]


def _is_used(registry: Declarations, relation: Relation, chosen: Mapping[str, str]) -> bool:
    """Whether a relation defines its variable without a further choice."""
    variable = registry.variables[relation.variable]
    if variable.name in chosen:
        return chosen[variable.name] == relation.name
    equations = [r for r in variable.defining_equations if r.kind != "approximation"]
    sole = equations if equations else variable.defining_equations
    return not variable.boundary and len(sole) == 1 and sole[0] is relation


def choices_of(
    registry: Declarations, way: Sequence[Relation], given: Iterable[str]
) -> dict[str, str]:
    """Variants that make a scenario follow a walk: alternatives, and what it states on the way."""
    stated = set(given)
    return {
        relation.variable: relation.name
        for relation in way
        if relation.variable in stated or not _is_used(registry, relation, {})
    }


def make_walk(
    resolver: Resolver, start: str, way: Sequence[Relation]
) -> tuple[list[WalkStep], float | None]:
    """The steps of a walk at the point of a resolver, whose variants follow it, and what all ways carry."""
    registry = resolver.registry
    target = way[-1].variable if way else start
    resolution = account(resolver, target, {})
    if resolution.value is None:
        gaps = [gap.variable.name for gap in resolution.missing]
        raise MissingInputsError(
            f"{target} needs {len(gaps)} more inputs on this walk: {', '.join(gaps)}",
            gaps,
            "give each a value with --assign, or an entry that states it with --with",
        )
    values = {step.variable.name: step.value for step in resolution.trace}
    parts = shares(registry, resolution)
    local = parts.local
    steps = [WalkStep(registry.variable(start), values.get(start), None, None, 1.0)]
    for relation in way:
        before = steps[-1]
        elasticity = local.get((relation.variable, before.variable.name))
        if elasticity is None:
            elasticity = _nudged(relation, before.variable.name, values)
        carried = (
            None if elasticity is None or before.carried is None else elasticity * before.carried
        )
        variable = registry.variables[relation.variable]
        steps.append(WalkStep(variable, values.get(variable.name), relation, elasticity, carried))
    # What passes a relation without a formula is not in the sum.
    is_whole = not any(relation.variable in parts.opaque for relation in way)
    return steps, parts.of_target.get(start) if is_whole else None


def _nudged(relation: Relation, name: str, values: Mapping[str, float | None]) -> float | None:
    """Elasticity of a relation without a formula, such as a differential one, by differences."""
    known = {n: v for n, v in values.items() if v is not None}
    base = known.get(name)
    value = known.get(relation.variable)
    if not base or not value or any(needed not in known for needed in relation.inputs):
        return None
    ends = [
        relation.evaluate_rhs({**known, name: base * (1 + nudge)}) for nudge in (-_NUDGE, _NUDGE)
    ]
    slope = (ends[1] - ends[0]) / (2 * _NUDGE * value)
    return slope if math.isfinite(slope) else None


def layers_of(steps: Sequence[WalkStep]) -> list[str]:
    """The layers that a walk passes, each once, in order; constants are of their own."""
    return list(
        dict.fromkeys(s.variable.scope for s in steps if not isinstance(s.variable, Constant))
    )
