"""Cones: what a variable is computed from, given the known variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from assay.errors import AssayError
from assay.model.inputs import Inputs
from assay.model.language.dynamics import Iterative
from assay.model.language.expression import Expression
from assay.model.language.functions import where
from assay.model.language.relations import Relation
from assay.model.resolving.resolver import Resolver
from assay.model.selection import candidates
from assay.model.tapes.compile import Lowering

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


class Cones:
    """The graph upstream of any variable, ending at `known` ones, constants and missing inputs.

    Where the relation for a variable is chosen point by point, every relation that could be
    chosen counts.
    """

    def __init__(
        self,
        registry: Declarations,
        known: Iterable[str],
        variants: Mapping[str, str],
        *,
        switch: bool = True,
    ) -> None:
        """Walk definitions down to the variables in `known`."""
        self.registry = registry
        self.known = frozenset(known)
        self.variants = variants
        self.switch = switch
        self._lowering = Lowering(registry, list(self.known), variants, switch=switch)
        self._definitions: dict[str, tuple[str, ...]] = {}

    def missing_inputs(self, names: Sequence[str]) -> list[str]:
        """Inputs without a value upstream of the names."""
        return self._lowering.missing_inputs(list(names))

    def relations(self, name: str) -> list[Relation]:
        """Relations that may define a variable: the preferred one, then those to switch to."""
        first, *others = candidates(self.registry.variables[name], self.variants)
        if not self.switch or not others or self.missing_inputs(first.part_variables("valid")):
            return [first]
        usable = [first]
        for relation in others:
            if self.missing_inputs([*relation.part_variables("valid"), *relation.inputs]):
                continue
            usable.append(relation)
            if relation.validity is None:
                break
        return usable

    def definition(self, name: str) -> tuple[str, ...]:
        """What a variable's own relations refer to, whether or not its value is known."""
        if name not in self._definitions:
            relations = self.relations(name)
            names: dict[str, None] = {}
            for relation in relations:
                names.update(dict.fromkeys(relation.inputs))
                if len(relations) > 1:
                    names.update(dict.fromkeys(relation.part_variables("valid")))
            self._definitions[name] = tuple(names)
        return self._definitions[name]

    def needs(self, name: str) -> tuple[str, ...]:
        """What a variable is computed from; nothing when it is known, constant or missing."""
        if name in self.known or name in self.registry.constants:
            return ()
        return () if self.registry.variable(name).is_given(self.variants) else self.definition(name)

    def upstream(self, names: Iterable[str]) -> list[str]:
        """The names and all that they are computed from, each before what it needs."""
        seen: dict[str, None] = {}
        stack = list(reversed(list(names)))
        while stack:
            name = stack.pop()
            if name not in seen:
                seen[name] = None
                stack.extend(reversed(self.needs(name)))
        return list(seen)

    def definition_expression(self, name: str) -> Expression | None:
        """The right-hand side of a variable's relation, choices of relation included.

        For an iterated relation this is its update, whose fixed point the variable is. None when
        a relation has no closed form.
        """
        relations = self.relations(name)
        sides = [_closed_form(relation) for relation in relations]
        first = sides[0]
        if first is None or any(side is None for side in sides):
            return None
        chosen = first
        for relation, side in reversed(list(zip(relations[1:], sides[1:], strict=True))):
            assert side is not None
            valid = relation.validity
            chosen = side if valid is None else where(valid, side, chosen)
        valid = relations[0].validity
        return first if valid is None or len(relations) == 1 else where(valid, first, chosen)


def _closed_form(relation: Relation) -> Expression | None:
    return relation.part("update") if isinstance(relation, Iterative) else relation.expression


def are_idle(
    registry: Declarations,
    targets: Sequence[str],
    known: Mapping[str, float],
    variants: Mapping[str, str],
    *,
    switch: bool,
) -> bool:
    """Whether the targets have values at a point, so that inputs missing from their cones are idle.

    A branch of a choice that is not taken there may lack inputs; at a point that takes it the
    targets have no value.
    """
    resolver = Resolver(registry, Inputs(dict(known)), variants, switch=switch)
    try:
        return all(resolver.value(target) is not None for target in targets)
    except AssayError:
        return False
