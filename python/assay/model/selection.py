"""Which of several relations defines a variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assay.errors import AmbiguityError, unknown_name
from assay.model.language.conditions import certain, possible
from assay.model.language.encoding import encode
from assay.model.language.functions import where
from assay.model.language.relations import Equation, Relation
from assay.model.language.variables import Variable

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


def candidates(variable: Variable, variants: Mapping[str, str]) -> list[Relation]:
    """Relations for a variable: the one to use, then those to switch to if it is invalid.

    A chosen variant comes first; else the sole identity; else the sole approximation. Only an
    approximation can be invalid, so only it has alternatives.
    """
    relations = list(variable.defining_equations)
    if variable.name in variants:
        first = find_variant(variable, variants[variable.name])
    else:
        identities = [relation for relation in relations if relation.is_identity]
        preferred = identities or relations
        if len(preferred) > 1:
            raise AmbiguityError(
                f"{variable.name} has {len(preferred)} defining relations: "
                + ", ".join(relation.name for relation in preferred),
                f"choose one: --variant {variable.name}={preferred[0].name}",
            )
        first = preferred[0]
    if not first.is_conditional:
        return [first]
    return [first, *(relation for relation in relations if relation is not first)]


def combined(choices: Sequence[Relation]) -> Relation:
    """One relation that chooses among several at each point.

    Which relation of a simultaneous block's member is valid is known only at the solution, so the
    choice has to be part of the equations that are solved.
    """
    first = choices[0]
    if len(choices) == 1 or first.validity is None or first.expression is None:
        return first
    chosen = first.expression
    for relation in reversed(until_certain(choices[1:])):
        if relation.expression is not None:
            condition = relation.validity
            chosen = (
                relation.expression
                if condition is None
                else where(certain(condition), relation.expression, chosen)
            )
    chosen = where(possible(first.validity), first.expression, chosen)
    return Equation(
        name=first.name,
        variable=first.variable,
        scope=first.scope,
        parts={"expression": encode(chosen)},
        reference=first.reference,
    )


def until_certain(relations: Sequence[Relation]) -> list[Relation]:
    """Relations up to the first that is always valid; later ones are never used."""
    found: list[Relation] = []
    for relation in relations:
        found.append(relation)
        if relation.validity is None:
            break
    return found


def find_variant(variable: Variable, variant: str) -> Relation:
    """Look a variant up by its full name or by the part after the scope."""
    for relation in variable.defining_equations:
        if variant in (relation.name, relation.name.removeprefix(f"{relation.scope}.")):
            return relation
    names = [relation.name for relation in variable.defining_equations]
    error = unknown_name(f"variant of {variable.name}:", variant, names)
    error.hint = error.hint or f"choices: {', '.join(names) or 'none, the variable is an input'}"
    raise error


def check_variants(registry: Declarations, variants: Mapping[str, str]) -> None:
    """Refuse variants of unknown variables and unknown variants."""
    for name, variant in variants.items():
        find_variant(registry.variable(name), variant)
