"""Variables and relations as JSON data."""

from __future__ import annotations

from math import isinf
from typing import Any

from assay.errors import UnitError
from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable
from assay.model.registry import Registry
from assay.model.resolving.provenance import describe_source


def role_of(variable: Variable) -> str:
    """Role of a variable in the graph: `constant`, `root` or `computed`."""
    if isinstance(variable, Constant):
        return "constant"
    return "root" if variable.is_root else "computed"


def variable_data(variable: Variable, registry: Registry | None = None) -> dict[str, Any]:
    """A variable as JSON data; with the registry, also its relations and constraints."""
    data: dict[str, Any] = {
        "name": variable.name,
        "kind": "variable",
        "role": role_of(variable),
        "symbol": variable.symbol,
        "meaning": variable.meaning,
        "unit": variable.unit.text,
        "display": variable.display.text,
        "lower": None if isinf(variable.lower) else variable.shown(variable.lower),
        "upper": None if isinf(variable.upper) else variable.shown(variable.upper),
        "value": variable.shown(variable.value) if isinstance(variable, Constant) else None,
        "scope": variable.scope,
        "family": variable.family,
        "boundary": variable.boundary,
        "nature": variable.nature,
        "target": variable.target,
        "library": variable.library,
        "reference": describe_source(variable.reference),
    }
    if registry is not None:
        block = registry.block_of.get(variable.name)
        data["block"] = block.name if block else None
        data["defined_by"] = [
            {**relation_data(r), **_formula_data(r, registry)} for r in variable.defining_equations
        ]
        data["used_by"] = [r.name for r in users_of(registry, variable)]
        data["constraints"] = [relation_data(c) for c in constraints_on(registry, variable)]
    return data


def brief_variable_data(variable: Variable) -> dict[str, Any]:
    """What a map of many variables needs to know of one."""
    return {
        "name": variable.name,
        "role": role_of(variable),
        "symbol": variable.symbol,
        "meaning": variable.meaning,
        "display": variable.display.text,
        "scope": variable.scope,
    }


def brief_relation_data(relation: Relation) -> dict[str, Any]:
    """A relation by what it connects."""
    return {
        "name": relation.name,
        "kind": relation.kind,
        "variable": relation.variable or None,
        "inputs": list(relation.inputs),
    }


def relation_data(relation: Relation, registry: Registry | None = None) -> dict[str, Any]:
    """A relation as JSON data; with the registry, also its formula and variables."""
    data: dict[str, Any] = {
        "name": relation.name,
        "kind": relation.kind,
        "variable": relation.variable or None,
        "text": relation.text,
        "inputs": list(relation.inputs),
        "validity": None if relation.validity is None else str(relation.validity),
        "meaning": relation.meaning,
        "options": dict(relation.options),
        "scope": relation.scope,
        "library": relation.library,
        "reference": describe_source(relation.reference),
    }
    if registry is not None:
        data |= _formula_data(relation, registry)
        data["variables"] = [variable_data(v) for v in variables_of(registry, relation)]
    return data


def _formula_data(relation: Relation, registry: Registry) -> dict[str, Any]:
    """The formula as LaTeX, and whether its units agree, found by checking them now."""
    from assay.model.graphs.latex import relation_to_latex

    try:
        relation.check_units(registry.units)
        reason = ""
    except UnitError as error:
        reason = error.message
    unit = registry.variables[relation.variable].unit.text if relation.variable else None
    return {
        "latex": relation_to_latex(registry, relation),
        "unit_check": {"agrees": not reason, "unit": unit, "reason": reason},
    }


def users_of(registry: Registry, variable: Variable) -> list[Relation]:
    """Relations that compute something from a variable."""
    return [r for r in registry.equations.values() if variable.name in r.inputs]


def constraints_on(registry: Registry, variable: Variable) -> list[Relation]:
    """Inequalities that a variable takes part in."""
    return [c for c in registry.constraints.values() if variable.name in c.inputs]


def variables_of(registry: Registry, relation: Relation) -> list[Variable]:
    """Variables of a relation, the one that it defines first."""
    names = [relation.variable, *relation.inputs, *relation.part_variables("valid")]
    return [registry.variable(name) for name in dict.fromkeys(filter(None, names))]
