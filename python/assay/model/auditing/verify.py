"""Verify: apply every rule to a registry and collect all faults.

The fast profile checks declarations; the full one also computes (see
`assay.model.auditing.verify_numeric`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

from assay.answers import data_of
from assay.errors import InputError
from assay.model import load_checks
from assay.model.auditing.duplicates import duplicate_relations, similar_variables
from assay.model.auditing.rules import Rule, RuleOutcome, collect
from assay.model.language.references import Reference
from assay.model.language.relations import Approximation
from assay.model.language.variables import BOUNDARIES

if TYPE_CHECKING:
    from assay.model.registry import Registry

PROFILES = ("fast", "full")
REPORTED = ("choices", "equal relations", "similar variables")
"""Checks whose findings are listed but do not fail."""
_REFERENCE_KINDS = ("cited", "definition", "fitted", "unsourced")


@dataclass(frozen=True, slots=True)
class VerifyCheck:
    """The result of one rule: `ok`, `failed` or `skipped`, with the number of items checked."""

    name: str
    meaning: str
    status: str
    count: int
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """All checks of a profile."""

    profile: str
    checks: tuple[VerifyCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "failed" for check in self.checks)

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        return data_of(self, "profile ok checks")


def verify(
    registry: Registry, profile: Literal["fast", "full"] = "fast", read_only: bool = False
) -> VerifyReport:
    """Check every declaration and, in the full profile, every number that follows from them.

    The full profile uses the cache of tapes; with `read_only` nothing is written to it.
    """
    if profile not in PROFILES:
        raise InputError(f'unknown profile "{profile}"', f"one of: {', '.join(PROFILES)}")
    rules = [*_RULES, *_duplicate_rules()]
    if profile == "full":
        from assay.model.auditing.verify_numeric import numeric_rules

        rules += numeric_rules(read_only=read_only)
    names = _check(registry, _NAMES)
    if names.status == "failed":
        # Other rules need every name to resolve.
        later = [
            VerifyCheck(r.name, r.meaning, "skipped", 0, ("names do not resolve",)) for r in rules
        ]
    else:
        later = [_check(registry, rule) for rule in rules]
    return VerifyReport(profile, (names, *later))


def _check(registry: Registry, rule: Rule) -> VerifyCheck:
    outcome = rule.apply(registry)
    if outcome.skipped:
        return VerifyCheck(rule.name, rule.meaning, "skipped", outcome.count, (outcome.skipped,))
    failed = outcome.findings and rule.name not in REPORTED
    status = "failed" if failed else "ok"
    return VerifyCheck(
        rule.name, rule.meaning, status, outcome.count, (*outcome.findings, *outcome.notes)
    )


def _names(registry: Registry) -> RuleOutcome:
    relations, blocks = registry.relations.values(), registry.blocks.values()
    findings = collect(partial(load_checks.check_names, registry), relations)
    findings += collect(partial(load_checks.check_block, registry), blocks)
    return RuleOutcome(len(relations) + len(blocks), findings)


def _order(registry: Registry) -> RuleOutcome:
    order = load_checks.scope_order(registry)
    relations = registry.relations.values()
    findings = collect(lambda r: load_checks.check_order(registry, r, order), relations)
    return RuleOutcome(len(relations), findings)


def _units(registry: Registry) -> RuleOutcome:
    units, relations = registry.units, registry.relations.values()
    return RuleOutcome(len(relations), collect(lambda r: r.check_units(units), relations))


def _display(registry: Registry) -> RuleOutcome:
    findings = [
        f"{v.name} is declared in {v.unit} and displayed in {v.display}"
        for v in registry.variables.values()
        if not v.display.same_dimension(v.unit)
    ]
    return RuleOutcome(len(registry.variables), findings)


def _references(registry: Registry) -> RuleOutcome:
    things = [*registry.constants.values(), *registry.variables.values()]
    stated = [(t.name, t.reference) for t in things]
    stated += [(f"relation {r.name}", r.reference) for r in registry.relations.values()]
    findings = [f"{name}: {fault}" for name, r in stated if (fault := _reference_fault(r))]
    return RuleOutcome(len(stated), findings)


def _reference_fault(reference: Reference) -> str:
    if reference.kind not in _REFERENCE_KINDS:
        return f'unknown kind of reference "{reference.kind}"'
    if reference.kind in ("cited", "fitted") and not reference.work:
        return "cites no work"
    return ""


def _boundaries(registry: Registry) -> RuleOutcome:
    findings = collect(load_checks.check_boundary, registry.variables.values())
    for name in registry.roots:
        boundary = registry.variables[name].boundary
        if boundary is None:
            findings.append(f"root {name} declares no boundary (one of: {', '.join(BOUNDARIES)})")
        elif boundary not in BOUNDARIES:
            findings.append(f'root {name} has the unknown boundary "{boundary}"')
    return RuleOutcome(len(registry.roots), findings)


def _cycles(registry: Registry) -> RuleOutcome:
    cycles = registry.graph.find_cycles()
    findings = [" -> ".join([*cycle, cycle[0]]) for cycle in cycles]
    if not cycles.complete:
        findings.append(f"and more than these {len(cycles)}")
    return RuleOutcome(len(registry.equations), findings)


def _choices(registry: Registry) -> RuleOutcome:
    findings = []
    for variable in registry.variables.values():
        identities = [r for r in variable.defining_equations if r.is_identity]
        preferred = identities or variable.defining_equations
        if len(preferred) > 1:
            listed = ", ".join(relation.name for relation in preferred)
            findings.append(f"{variable.name} needs a choice among {listed}")
    return RuleOutcome(len(registry.variables), findings)


def _validity(registry: Registry) -> RuleOutcome:
    approximations = [r for r in registry.relations.values() if isinstance(r, Approximation)]
    missing = [
        f"{r.name} does not say where it is valid" for r in approximations if r.validity is None
    ]
    return RuleOutcome(len(approximations), missing)


def _reachability(registry: Registry) -> RuleOutcome:
    if not registry.targets:
        return RuleOutcome(0, skipped="no target is declared")
    reached = registry.graph.reachable().relations
    findings = [
        f"{name} reaches no target and is not tagged library"
        for name, relation in registry.relations.items()
        if name not in reached and not relation.library
    ]
    return RuleOutcome(len(registry.relations), findings)


def _duplicate_rules() -> tuple[Rule, Rule]:
    """Two rules that share one search."""
    search = cache(duplicate_relations)

    def repeated(registry: Registry) -> RuleOutcome:
        findings = [f"{d} state the same" for d in search(registry) if d.same_variable]
        return RuleOutcome(len(registry.relations), findings)

    def equal(registry: Registry) -> RuleOutcome:
        duplicates = [d for d in search(registry) if not d.same_variable]
        return RuleOutcome(
            len(registry.relations), [f"{d} have the same right-hand side" for d in duplicates]
        )

    return (
        Rule("repeated relations", "no variable is defined twice in the same way", repeated),
        Rule("equal relations", "no two variables have the same right-hand side", equal),
    )


def _similar(registry: Registry) -> RuleOutcome:
    pairs = similar_variables(registry)
    findings = [f"{a} and {b} mean nearly the same, in the same unit" for a, b in pairs]
    return RuleOutcome(len(registry.variables), findings)


_NAMES = Rule("names", "every name that a relation or block uses is declared", _names)
_RULES = (
    Rule("order", "a scope refers only to itself and to earlier ones", _order),
    Rule("units", "both sides of every relation agree in dimension and scale", _units),
    Rule("display units", "variables are displayed in units of their dimension", _display),
    Rule("references", "references are of a known kind, and citations name a work", _references),
    Rule("boundaries", "every root says where the model ends, and nothing else does", _boundaries),
    Rule("cycles", "nothing is defined through itself outside a simultaneous block", _cycles),
    Rule("choices", "variables with several relations of equal standing", _choices),
    Rule("validity", "every approximation says where it is valid", _validity),
    Rule("reachability", "every relation reaches a target or is tagged library", _reachability),
    Rule("similar variables", "no two variables mean nearly the same", _similar),
)
