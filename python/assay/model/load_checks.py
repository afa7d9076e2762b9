"""Checks of declarations before a registry is used.

Each check raises at the first fault; `assay.model.auditing.verify` runs them one by one and
collects the faults instead.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from assay.errors import DeclarationError
from assay.model.language.relations import Relation
from assay.model.language.variables import Variable

if TYPE_CHECKING:
    from assay.model.declarations import Declarations, SimultaneousBlock


def check_registry(registry: Declarations) -> None:
    """Check references, order and units; the first fault is raised."""
    order = scope_order(registry)
    for relation in registry.relations.values():
        check_names(registry, relation)
        check_order(registry, relation, order)
        relation.check_units(registry.units)
    for block in registry.blocks.values():
        check_block(registry, block)
    for variable in registry.variables.values():
        check_boundary(variable)


def scope_order(registry: Declarations) -> dict[str, int]:
    """The position of every scope in the order of loading."""
    return {scope: position for position, scope in enumerate(registry.scopes)}


def check_names(registry: Declarations, relation: Relation) -> None:
    """Refuse a relation that defines or mentions an undeclared variable."""
    if relation.variable in registry.constants:
        raise DeclarationError(f"relation {relation.name} defines the constant {relation.variable}")
    if relation.variable and relation.variable not in registry.variables:
        raise DeclarationError(
            f"relation {relation.name} defines an unknown variable {relation.variable}"
        )
    for name in mentioned(relation):
        if name not in registry.units:
            near = difflib.get_close_matches(name, registry.units, n=1)
            raise DeclarationError(
                f"relation {relation.name} refers to an unknown variable {name}",
                f"did you mean {near[0]}?" if near else None,
            )


def check_order(registry: Declarations, relation: Relation, order: dict[str, int]) -> None:
    """Refuse a relation that refers to a later scope, unless both are solved together."""
    block = registry.block_of.get(relation.variable)
    for name in mentioned(relation):
        scope = registry.variable(name).scope
        together = block is not None and name in block.members
        if order[scope] > order[relation.scope] and not together:
            raise DeclarationError(
                f"relation {relation.name} in scope {relation.scope} refers to {name} "
                f"in the later scope {scope}",
                "move one of them, or declare a simultaneous block",
            )


def check_block(registry: Declarations, block: SimultaneousBlock) -> None:
    """Refuse a simultaneous block with a member that nothing declares or defines."""
    for member in block.members:
        if member not in registry.variables:
            raise DeclarationError(f"simultaneous block {block.name}: unknown variable {member}")
        if registry.variables[member].is_root:
            raise DeclarationError(f"simultaneous block {block.name}: nothing defines {member}")


def check_boundary(variable: Variable) -> None:
    """Refuse a boundary of the model at a variable that the model computes.

    Relations with names of their own are alternatives, used only where one is chosen.
    """
    named = {relation.name for relation in variable.defining_equations}
    if variable.boundary and variable.name in named:
        raise DeclarationError(
            f"variable {variable.name} has boundary {variable.boundary} "
            "although a relation defines it",
            "drop the boundary, or give the relation a name: it is then an alternative",
        )


def mentioned(relation: Relation) -> tuple[str, ...]:
    """Names of the variables in a relation, those of its validity condition last."""
    return (*relation.inputs, *relation.part_variables("valid"))
