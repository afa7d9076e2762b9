"""Sources of uncertainty in a cone, and the variables that depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.errors import AmbiguityError
from assay.model.inputs import Inputs
from assay.model.language.dynamics import Stochastic
from assay.model.language.relations import Relation
from assay.model.selection import candidates

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


@dataclass(frozen=True, slots=True)
class UncertaintyQuery:
    """Targets, inputs and variants of an uncertainty propagation."""

    registry: Declarations
    targets: tuple[str, ...]
    inputs: Inputs
    variants: Mapping[str, str]
    switch: bool = True


@dataclass(frozen=True, slots=True)
class UncertaintySources:
    """Inputs given as distributions, then stochastic relations.

    Each stochastic relation comes after those that its own parameters depend on. `cone` is all
    that the targets may be computed from, `varying` the part of it that depends on the sources.
    """

    inputs: tuple[str, ...]
    drawn: tuple[Stochastic, ...]
    cone: frozenset[str]
    varying: frozenset[str]
    dimensions: tuple[int, ...]
    """The coordinate of each source. It depends on the inputs and not on the targets, so that a
    target has the same interval by itself and among others."""
    of: int
    """The number of coordinates."""
    needed_by: Mapping[str, Sequence[str]] = field(repr=False)
    _reached: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The variable that each source makes uncertain."""
        return (*self.inputs, *(relation.variable for relation in self.drawn))

    def reached_from(self, name: str) -> frozenset[str]:
        """The variables of the cone that depend on one of them."""
        if name not in self._reached:
            self._reached[name] = _dependents(self.needed_by, [name])
        return self._reached[name]


@dataclass(frozen=True, slots=True)
class UncertainCone:
    """What targets may be computed from: by variable what it needs and who needs it, and draws."""

    needs: Mapping[str, tuple[str, ...]]
    needed_by: Mapping[str, Sequence[str]]
    drawn: tuple[Stochastic, ...]


def find_cone(query: UncertaintyQuery) -> UncertainCone:
    """Find the targets' cones, through every relation that may be used.

    They depend on which inputs are given, and not on their values or distributions.
    """
    needs: dict[str, tuple[str, ...]] = {}
    drawn_by: dict[str, list[Stochastic]] = {}
    drawn: list[Stochastic] = []
    stack = list(reversed(query.targets))
    while stack:
        name = stack[-1]
        if name in needs:
            stack.pop()
            drawn += drawn_by.pop(name, ())
            continue
        relations = _possible(query, name)
        needs[name] = _needs(relations)
        drawn_by[name] = [r for r in relations if isinstance(r, Stochastic)]
        stack += needs[name]
    needed_by: dict[str, list[str]] = {}
    for name, needed_names in needs.items():
        for needed in needed_names:
            needed_by.setdefault(needed, []).append(name)
    return UncertainCone(needs, needed_by, tuple(drawn))


def find_sources(query: UncertaintyQuery, cone: UncertainCone | None = None) -> UncertaintySources:
    """Find the sources in the targets' cones, which may be known from a like query."""
    known = cone or find_cone(query)
    inputs = tuple(name for name in query.inputs.distributions if name in known.needs)
    origins = [*inputs, *(relation.variable for relation in known.drawn)]
    given = list(query.inputs.distributions)
    drawable = query.registry.relations_of_kind(Stochastic.kind)
    coordinates = {name: place for place, name in enumerate([*given, *drawable])}
    return UncertaintySources(
        inputs,
        known.drawn,
        frozenset(known.needs),
        _dependents(known.needed_by, origins),
        tuple(coordinates[name] for name in (*inputs, *(r.name for r in known.drawn))),
        len(coordinates),
        known.needed_by,
    )


def _possible(query: UncertaintyQuery, name: str) -> list[Relation]:
    registry = query.registry
    if name in query.inputs.values or name not in registry.variables:
        return []
    variable = registry.variables[name]
    if variable.is_given(query.variants):
        return []
    try:
        choices = candidates(variable, query.variants)
    except AmbiguityError:
        # Resolving raises; the search covers every relation.
        return list(variable.defining_equations)
    return choices if query.switch and name not in registry.block_of else choices[:1]


def _needs(relations: list[Relation]) -> tuple[str, ...]:
    parts = [part for relation in relations for part in (relation.inputs, relation.valid_inputs)]
    if len(relations) == 1 and not parts[1]:
        return parts[0]
    return tuple(dict.fromkeys(name for part in parts for name in part))


def _dependents(needed_by: Mapping[str, Sequence[str]], origins: list[str]) -> frozenset[str]:
    dependents = set(origins)
    frontier = list(dependents)
    while frontier:
        following = set(needed_by.get(frontier.pop(), ())) - dependents
        dependents |= following
        frontier.extend(following)
    return frozenset(dependents)
