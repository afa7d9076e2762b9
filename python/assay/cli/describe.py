"""Descriptions of variables and relations as text."""

from collections.abc import Iterator
from math import isinf

from assay.cli import styles
from assay.cli.output import Canvas, Line, facts, wrapped
from assay.model.language.relations import Relation
from assay.model.language.variables import Constant, Variable
from assay.model.registry import Registry
from assay.model.resolving.provenance import describe_source
from assay.scenario.questions.describing import constraints_on, role_of, users_of, variables_of


def variable_lines(registry: Registry, variable: Variable, canvas: Canvas) -> Iterator[Line]:
    """A variable as text: its attributes, then its relations and constraints."""
    yield ((variable.name, styles.NAME), f"  {variable.symbol}")
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
        ("constrained by", constraints_on(registry, variable)),
        ("used by", users_of(registry, variable)),
    ):
        if relations:
            yield ""
            yield ((title, styles.FAINT),)
            for relation in relations:
                yield from _short(relation, canvas, with_source=title != "used by")


def relation_lines(registry: Registry, relation: Relation, canvas: Canvas) -> Iterator[Line]:
    """A relation as text, with its variables."""
    yield ((relation.name, styles.NAME), f"  {relation.kind}")
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
        ((v.name, f"{v.meaning} [{v.display}]") for v in variables_of(registry, relation)), canvas
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
    yield from wrapped("; ".join(about), canvas, "      ", styles.FAINT)
