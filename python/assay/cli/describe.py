"""Descriptions of variables and relations, as data and as text."""

from collections.abc import Iterator
from math import isinf
from typing import Any

from assay.cli.output import FAINT, NAME, Canvas, Line, facts, wrapped
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
        data["used_by"] = [r.name for r in _users(registry, variable)]
        data["constraints"] = [relation_data(c) for c in _constraints(registry, variable)]
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
        data["variables"] = [variable_data(v) for v in _variables(registry, relation)]
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


def variable_lines(registry: Registry, variable: Variable, canvas: Canvas) -> Iterator[Line]:
    """A variable as text: its attributes, then its relations and constraints."""
    yield ((variable.name, NAME), f"  {variable.symbol}")
    yield variable.meaning
    yield ""
    block = registry.block_of.get(variable.name)
    is_constant = isinstance(variable, Constant)
    yield from facts(
        (
            ("value", variable.format(variable.value) if isinstance(variable, Constant) else ""),
            ("unit", variable.unit.text),
            ("shown in", variable.display.text if variable.display != variable.unit else ""),
            ("bounds", "" if is_constant else bounds_text(variable)),
            ("nature", variable.nature if variable.nature != "measure" else ""),
            (
                "cases",
                ", ".join(f"{case} ({variable.number_of(case):g})" for case in variable.cases),
            ),
            ("role", role_of(variable) + (", target" if variable.target else "")),
            ("boundary", variable.boundary or ""),
            ("family", variable.family),
            ("scope", f"{variable.scope}: {registry.scopes[variable.scope]}"),
            ("library", "yes: no declared target needs it" if variable.library else ""),
            ("source", describe_source(variable.reference)),
            ("block", f"{block.name}, solved together with its other members" if block else ""),
        ),
        canvas,
    )
    for title, relations in (
        ("defined by", variable.defining_equations),
        ("constrained by", _constraints(registry, variable)),
        ("used by", _users(registry, variable)),
    ):
        if relations:
            yield ""
            yield ((title, FAINT),)
            for relation in relations:
                yield from _short(relation, canvas, with_source=title != "used by")


def relation_lines(registry: Registry, relation: Relation, canvas: Canvas) -> Iterator[Line]:
    """A relation as text, with its variables."""
    yield ((relation.name, NAME), f"  {relation.kind}")
    if relation.meaning:
        yield relation.meaning
    yield ""
    yield from facts([("states", relation.text)], canvas)
    details = [(name.replace("_", " "), str(value)) for name, value in relation.options.items()]
    yield from facts(
        (
            ("valid if", "" if relation.validity is None else str(relation.validity)),
            ("scope", f"{relation.scope}: {registry.scopes[relation.scope]}"),
            ("library", "yes: no declared target needs it" if relation.library else ""),
            ("source", describe_source(relation.reference)),
            *details,
        ),
        canvas,
    )
    yield ""
    yield from facts(
        ((v.name, f"{v.meaning} [{v.display}]") for v in _variables(registry, relation)), canvas
    )


def bounds_text(variable: Variable) -> str:
    """The bounds as text, in display units."""
    parts = []
    if variable.lower > 0 and variable.lower < 1e-300:
        parts.append("> 0")
    elif not isinf(variable.lower):
        parts.append(f">= {variable.format(variable.lower)}")
    if not isinf(variable.upper):
        parts.append(f"<= {variable.format(variable.upper)}")
    return " and ".join(parts) or "any"


def _short(relation: Relation, canvas: Canvas, *, with_source: bool) -> Iterator[Line]:
    yield from wrapped(relation.text, canvas, "  ")
    if not with_source:
        return
    about = [relation.kind]
    if relation.name != relation.variable:
        about.append(relation.name)
    if relation.validity is not None:
        about.append(f"valid if {relation.validity}")
    about.append(describe_source(relation.reference))
    yield from wrapped("; ".join(about), canvas, "      ", FAINT)


def _users(registry: Registry, variable: Variable) -> list[Relation]:
    return [r for r in registry.equations.values() if variable.name in r.inputs]


def _constraints(registry: Registry, variable: Variable) -> list[Relation]:
    return [c for c in registry.constraints.values() if variable.name in c.inputs]


def _variables(registry: Registry, relation: Relation) -> list[Variable]:
    names = [relation.variable, *relation.inputs, *relation.part_variables("valid")]
    return [registry.variable(name) for name in dict.fromkeys(filter(None, names))]
