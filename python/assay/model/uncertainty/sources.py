"""Where the uncertainty of a cone comes from, and how far it reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.errors import AmbiguityError
from assay.model.inputs import Inputs
from assay.model.language.dynamics import Stochastic
from assay.model.language.relations import Relation
from assay.model.selection import candidates

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


@dataclass(frozen=True, slots=True)
class Question:
    """Which variables are asked for, and on which assumptions."""

    registry: Declarations
    targets: tuple[str, ...]
    inputs: Inputs
    variants: Mapping[str, str]
    switch: bool = True


@dataclass(frozen=True, slots=True)
class Sources:
    """Inputs given as distributions, then stochastic relations.

    Each stochastic relation comes after those that its own parameters depend on. `cone` is all
    that the targets may be computed from, `varying` the part of it that the sources reach.
    """

    inputs: tuple[str, ...]
    drawn: tuple[Stochastic, ...]
    cone: frozenset[str]
    varying: frozenset[str]

    @property
    def names(self) -> tuple[str, ...]:
        """The variable that each source makes uncertain."""
        return (*self.inputs, *(relation.variable for relation in self.drawn))


def find_sources(question: Question) -> Sources:
    """Look below the targets, through every relation that may come to be used at some point."""
    relations: dict[str, list[Relation]] = {}
    drawn: list[Stochastic] = []
    stack = [(name, False) for name in reversed(question.targets)]
    while stack:
        name, finished = stack.pop()
        if finished:
            drawn += [r for r in relations[name] if isinstance(r, Stochastic)]
        elif name not in relations:
            relations[name] = _possible(question, name)
            stack.append((name, True))
            stack.extend((needed, False) for needed in _needs(relations[name]))
    inputs = tuple(name for name in question.inputs.distributions if name in relations)
    origins = [*inputs, *(relation.variable for relation in drawn)]
    return Sources(inputs, tuple(drawn), frozenset(relations), _reached(relations, origins))


def _possible(question: Question, name: str) -> list[Relation]:
    registry = question.registry
    if name in question.inputs.values or name not in registry.variables:
        return []
    variable = registry.variables[name]
    if variable.is_root:
        return []
    try:
        choices = candidates(variable, question.variants)
    except AmbiguityError:
        # Whoever needs the value will refuse; a search must not overlook any of them.
        return list(variable.defining_equations)
    return choices if question.switch and name not in registry.block_of else choices[:1]


def _needs(relations: list[Relation]) -> dict[str, None]:
    return dict.fromkeys(
        name
        for relation in relations
        for name in (*relation.inputs, *relation.part_variables("valid"))
    )


def _reached(relations: Mapping[str, list[Relation]], origins: list[str]) -> frozenset[str]:
    needed_by: dict[str, list[str]] = {}
    for name, choices in relations.items():
        for needed in _needs(choices):
            needed_by.setdefault(needed, []).append(name)
    reached = set(origins)
    frontier = list(reached)
    while frontier:
        following = set(needed_by.get(frontier.pop(), ())) - reached
        reached |= following
        frontier.extend(following)
    return frozenset(reached)
