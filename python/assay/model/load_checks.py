"""What every declaration must satisfy before a registry is used."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from assay.errors import DeclarationError
from assay.model.relations import Relation

if TYPE_CHECKING:
    from assay.model.registry import Registry


def check_registry(registry: Registry) -> None:
    """Check references, order and units; the first fault is raised."""
    order = {scope: position for position, scope in enumerate(registry.scopes)}
    for relation in registry.relations.values():
        _check_references(registry, relation, order)
        relation.check_units(registry.units)
    for block in registry.blocks.values():
        for member in block.members:
            if member not in registry.variables:
                raise DeclarationError(
                    f"simultaneous block {block.name}: unknown variable {member}"
                )
            if registry.variables[member].is_root:
                raise DeclarationError(f"simultaneous block {block.name}: nothing defines {member}")
    for variable in registry.variables.values():
        if variable.boundary and not variable.is_root:
            raise DeclarationError(
                f"variable {variable.name} has boundary {variable.boundary} although a relation defines it",
                "drop the boundary",
            )


def _check_references(registry: Registry, relation: Relation, order: dict[str, int]) -> None:
    if relation.variable in registry.constants:
        raise DeclarationError(f"relation {relation.name} defines the constant {relation.variable}")
    if relation.variable and relation.variable not in registry.variables:
        raise DeclarationError(
            f"relation {relation.name} defines an unknown variable {relation.variable}"
        )
    block = registry.block_of.get(relation.variable)
    validity = relation.part_variables("valid")
    for name in (*relation.inputs, *validity):
        if name not in registry.units:
            near = difflib.get_close_matches(name, registry.units, n=1)
            raise DeclarationError(
                f"relation {relation.name} refers to an unknown variable {name}",
                f"did you mean {near[0]}?" if near else None,
            )
        scope = registry.variable(name).scope
        together = block is not None and name in block.members
        if order[scope] > order[relation.scope] and not together:
            raise DeclarationError(
                f"relation {relation.name} in scope {relation.scope} refers to {name} in the later scope {scope}",
                "move one of them, or declare a simultaneous block",
            )
