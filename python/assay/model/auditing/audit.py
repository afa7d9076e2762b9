"""Statistics of a registry: counts, coverage by references, unreachable and unused parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.answers import data_of
from assay.errors import UnitError
from assay.model.auditing.duplicates import (
    Duplicate,
    distinct_relations,
    duplicate_relations,
    similar_variables,
)
from assay.model.language.references import Reference
from assay.model.language.relations import Approximation
from assay.model.language.variables import BOUNDARIES, Variable
from assay.model.load_checks import mentioned

if TYPE_CHECKING:
    from assay.model.registry import Registry

UNDECLARED = "undeclared"
"""Stands for the boundary of a root that declares none."""


def stats(registry: Registry) -> dict[str, int]:
    """Counts of everything in the registry.

    `systems` are scopes; `relations` include inequalities. `distinct_relations` counts a template
    once, `template_copies` its further instances (see `template_of`). `unit_checked` counts relations whose
    units agree, found by checking them now. A variable counts as referenced by its own reference
    or by that of a relation that defines it. `reachable` counts relations that resolving the
    declared targets may use or check (see `DependencyGraph.reachable`); `library` those tagged so.
    """
    graph = registry.graph
    relations = registry.relations.values()
    distinct = distinct_relations(registry)
    return {
        "systems": len(registry.scopes),
        "variables": len(registry.variables),
        "constants": len(registry.constants),
        "relations": len(relations),
        "distinct_relations": distinct,
        "template_copies": len(relations) - distinct,
        "root_inputs": len(registry.roots),
        "leaves": len(graph.leaves()),
        "cycles": len(graph.find_cycles()),
        "families": len(graph.families()),
        "unit_checked": sum(_units_agree(registry, name) for name in registry.relations),
        "variables_referenced": sum(map(is_referenced, registry.variables.values())),
        "relations_referenced": sum(r.reference.kind != "unsourced" for r in relations),
        "reachable": len(graph.reachable().relations),
        "library": sum(relation.library for relation in relations),
    }


def _units_agree(registry: Registry, name: str) -> bool:
    try:
        registry.relations[name].check_units(registry.units)
    except UnitError:
        return False
    return True


def is_referenced(variable: Variable) -> bool:
    """Whether a variable, or a relation that defines it, has a source or is a definition."""
    return any(reference.kind != "unsourced" for reference in _references(variable))


@dataclass(frozen=True, slots=True)
class WeakReference:
    """A statement with a weak or missing reference."""

    name: str
    of: str
    why: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was found; `coverage` counts relations and variables by kind of reference."""

    coverage: dict[str, dict[str, int]]
    relation_kinds: dict[str, dict[str, int]]
    unreached_relations: tuple[str, ...]
    unreached_roots: tuple[str, ...]
    duplicates: tuple[Duplicate, ...]
    similar_variables: tuple[tuple[str, str], ...]
    weak_references: tuple[WeakReference, ...]
    roots_by_boundary: dict[str, tuple[str, ...]]
    unused_constants: tuple[str, ...]

    @property
    def issues(self) -> list[str]:
        """What should be mended: weak references, unreached and duplicate relations, unused names."""
        return [
            *(f"{weak.of} {weak.name}: {weak.why}" for weak in self.weak_references),
            *(
                f"{name} reaches no target"
                for name in (*self.unreached_relations, *self.unreached_roots)
            ),
            *(f"duplicates: {', '.join(d.relations)}" for d in self.duplicates if d.same_variable),
            *(f"constant {name} is not used" for name in self.unused_constants),
        ]

    @property
    def shares(self) -> dict[str, float]:
        """Shares of relations and of variables that are referenced, between 0 and 1."""
        return {
            what: 1.0 - counts["unsourced"] / sum(counts.values()) if any(counts.values()) else 1.0
            for what, counts in self.coverage.items()
        }

    @property
    def cited(self) -> dict[str, float]:
        """Shares of relations and of variables that cite an outside work, between 0 and 1."""
        return {
            what: counts["cited"] / sum(counts.values()) if any(counts.values()) else 1.0
            for what, counts in self.coverage.items()
        }

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "referenced": self.shares,
            **data_of(self, "cited coverage relation_kinds unreached_relations unreached_roots"),
            "duplicates": [list(duplicate.relations) for duplicate in self.duplicates],
            **data_of(self, "similar_variables weak_references roots_by_boundary unused_constants"),
        }


def audit(registry: Registry, target: str | None = None) -> AuditReport:
    """Look for what is unsourced, unreached, repeated or unused, in all or below one target."""
    report = _audit(registry)
    return report if target is None else _below(report, registry, target)


def _below(report: AuditReport, registry: Registry, target: str) -> AuditReport:
    """What the report says of the variables and relations that a target depends on."""
    registry.variable(target)
    cone = registry.graph.reachable([target])
    variables, relations = set(cone.variables), set(cone.relations)
    kinds: dict[str, Counter[str]] = {}
    for name in relations:
        relation = registry.relations[name]
        kinds.setdefault(relation.kind, Counter())[_kind(relation.reference)] += 1
    own = [v for name, v in registry.variables.items() if name in variables]
    references = Counter(_kind(registry.relations[name].reference) for name in relations)
    return replace(
        report,
        coverage={
            "relations": _by_kind(references),
            "variables": _by_kind(Counter(map(_best_reference, own))),
        },
        relation_kinds={kind: _by_kind(counts) for kind, counts in kinds.items()},
        unreached_relations=(),
        unreached_roots=(),
        duplicates=tuple(d for d in report.duplicates if relations.issuperset(d.relations)),
        similar_variables=tuple(p for p in report.similar_variables if variables.issuperset(p)),
        weak_references=tuple(w for w in report.weak_references if w.name in variables | relations),
        roots_by_boundary={
            boundary: kept
            for boundary, names in report.roots_by_boundary.items()
            if (kept := tuple(name for name in names if name in variables))
        },
        unused_constants=(),
    )


def _audit(registry: Registry) -> AuditReport:
    graph, relations = registry.graph, registry.relations
    reachable = graph.reachable()
    kinds: dict[str, Counter[str]] = {}
    for relation in relations.values():
        kinds.setdefault(relation.kind, Counter())[_kind(relation.reference)] += 1
    boundaries: dict[str, list[str]] = {boundary: [] for boundary in (*BOUNDARIES, UNDECLARED)}
    for name in registry.roots:
        boundary = registry.variables[name].boundary or UNDECLARED
        boundaries.setdefault(boundary, []).append(name)
    used = {name for relation in relations.values() for name in mentioned(relation)}
    return AuditReport(
        coverage={
            "relations": _by_kind(Counter(_kind(r.reference) for r in relations.values())),
            "variables": _by_kind(Counter(map(_best_reference, registry.variables.values()))),
        },
        relation_kinds={kind: _by_kind(counts) for kind, counts in kinds.items()},
        unreached_relations=tuple(
            name
            for name, r in relations.items()
            if name not in reachable.relations and not r.library
        ),
        unreached_roots=tuple(
            name
            for name in registry.roots
            if name not in reachable.variables and not registry.variables[name].library
        ),
        duplicates=tuple(duplicate_relations(registry)),
        similar_variables=tuple(similar_variables(registry)),
        weak_references=tuple(_weak_references(registry)),
        roots_by_boundary={b: tuple(names) for b, names in boundaries.items() if names},
        unused_constants=tuple(name for name in registry.constants if name not in used),
    )


_KINDS = ("cited", "fitted", "definition", "unsourced")


def _by_kind(counts: Counter[str]) -> dict[str, int]:
    return {kind: counts[kind] for kind in _KINDS}


def _kind(reference: Reference) -> str:
    return reference.kind if reference.kind in _KINDS else "unsourced"


def _best_reference(variable: Variable) -> str:
    return min(map(_kind, _references(variable)), key=_KINDS.index)


def _references(variable: Variable) -> list[Reference]:
    return [variable.reference, *(r.reference for r in variable.defining_equations)]


def _weak_references(registry: Registry) -> list[WeakReference]:
    weak = []
    for relation in registry.relations.values():
        if why := _weakness(relation.reference):
            weak.append(WeakReference(relation.name, "relation", why))
        elif isinstance(relation, Approximation) and relation.reference.kind == "definition":
            why = "an approximation cannot hold by definition"
            weak.append(WeakReference(relation.name, "relation", why))
    for variable in (*registry.constants.values(), *registry.variables.values()):
        # A computed variable is covered by the references of its relations.
        if variable.is_root and (why := _weakness(variable.reference)):
            of = "constant" if variable.name in registry.constants else "root"
            weak.append(WeakReference(variable.name, of, why))
    return weak


def _weakness(reference: Reference) -> str:
    if reference.kind == "unsourced":
        return "unsourced"
    if reference.kind == "cited" and not reference.where:
        return "cites a work without the place in it"
    return ""
