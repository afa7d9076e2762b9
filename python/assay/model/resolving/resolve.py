"""Resolve: compute a variable from given inputs, with trace, missing inputs and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from assay.errors import AssayError
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.dynamics import Stochastic
from assay.model.resolving.constraint_verdicts import ConstraintVerdicts, judge_constraints
from assay.model.resolving.resolution import ConditionVerdict, Conflict, Resolution, TargetValue
from assay.model.resolving.resolver import Resolver
from assay.model.selection import check_variants

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

Interval = tuple[float | None, float | None, tuple[str, ...]] | AssayError
"""Lower and upper end with `degradations` as in `Resolution`, or why there are none."""
NOT_SAMPLED: Final[Interval] = (None, None, ())
"""The interval of a target that nobody asked for."""


def resolve(
    registry: Declarations,
    target: str,
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
    intervals: bool = True,
) -> Resolution:
    """Compute `target`; missing inputs, verdicts and conflicts are part of the result, not errors.

    Without `intervals`, uncertain inputs stand at their medians and the value has no interval.
    """
    registry.variable(target)
    resolver = make_resolver(registry, given, variants, switch=switch)
    return account(resolver, target, None if intervals else {})


def make_resolver(
    registry: Declarations,
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
) -> Resolver:
    """A resolver for one or several targets, from given values that are checked here."""
    check_variants(registry, variants)
    inputs = given if isinstance(given, Inputs) else read_inputs(registry, given)
    return Resolver(registry, inputs, variants, switch=switch)


def account(
    resolver: Resolver,
    target: str,
    intervals: Mapping[str, Interval] | None = None,
    verdicts: ConstraintVerdicts | None = None,
) -> Resolution:
    """The value of a target with its trace, missing inputs, verdicts and conflicts.

    Several targets can share `intervals`, from `find_intervals`, and `verdicts`, from
    `judge_constraints`.
    """
    value = resolver.value(target)
    cone = resolver.cone(target)
    if intervals is None:
        intervals = find_intervals(resolver, [target])
    sampled = intervals.get(target, NOT_SAMPLED)
    if isinstance(sampled, AssayError):
        raise sampled
    lower, upper, degradations = sampled
    if verdicts is None:
        verdicts = judge_constraints(resolver)
    constraints, unjudged = verdicts.around(resolver, cone)
    return Resolution(
        target=target,
        value=value,
        lower=lower,
        upper=upper,
        variable=resolver.registry.variable(target),
        values=resolver.known_values,
        trace=resolver.trace(cone),
        missing=resolver.missing(target),
        constraints=constraints,
        validity=_validity_in_use(resolver, target, cone),
        conflicts=[conflict for conflict in resolver.conflicts() if not conflict.replaces],
        switches=[switch for name, switch in resolver.switches.items() if name in cone],
        unjudged=unjudged,
        taken={
            name: resolver.needs[name]
            for name, relation in resolver.chosen.items()
            if resolver.needs[name] is not relation.inputs and name in cone
        },
        degradations=degradations,
        replaced=[conflict for conflict in resolver.conflicts() if conflict.replaces],
    )


def _validity_in_use(resolver: Resolver, target: str, cone: set[str]) -> list[ConditionVerdict]:
    """Verdicts on the approximations that the value depends on."""
    verdicts = resolver.validities(cone)
    if all(verdict.status == "true" for verdict in verdicts):
        return verdicts
    return resolver.validities(resolver.cone_in_use(target))


def resolvable(resolver: Resolver, targets: Iterable[str]) -> list[str]:
    """The targets whose value can be computed, or lacks no more than inputs."""
    computed = []
    for target in targets:
        try:
            resolver.value(target)
        except AssayError:
            continue
        computed.append(target)
    return computed


def target_value(
    resolver: Resolver, target: str, intervals: Mapping[str, Interval]
) -> TargetValue | None:
    """The value and interval of a further target; None where sampling it fails."""
    sampled = intervals.get(target, NOT_SAMPLED)
    if isinstance(sampled, AssayError):
        return None
    gaps = len(resolver.missing(target))
    variable = resolver.registry.variable(target)
    return TargetValue(variable, resolver.value(target), sampled[0], sampled[1], gaps)


def find_intervals(resolver: Resolver, targets: Sequence[str]) -> dict[str, Interval]:
    """The 5th and 95th percentile of each target, from one sample for all of them.

    Both are the value itself where no source of uncertainty reaches the target.
    """
    values = {target: resolver.value(target) for target in targets}
    exact: dict[str, Interval] = {name: (value, value, ()) for name, value in values.items()}
    drawn = any(isinstance(relation, Stochastic) for relation in resolver.chosen.values())
    known = tuple(name for name, value in values.items() if value is not None)
    if not known or not (drawn or resolver.inputs.distributions):
        return exact
    from assay.model.uncertainty.sources import UncertaintyQuery, find_sources

    query = UncertaintyQuery(
        resolver.registry, known, resolver.inputs, resolver.variants, resolver.switch
    )
    # An uncertain input may decide which relation is valid without being part of the cone.
    sources = find_sources(query)
    uncertain = tuple(name for name in known if name in sources.varying)
    if not uncertain:
        return exact
    from assay.model.uncertainty.propagate import intervals

    if uncertain != known:
        query = replace(query, targets=uncertain)
        sources = find_sources(query)
    return exact | intervals(query, sources, resolver.known_values)


def find_conflicts(
    registry: Declarations,
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
) -> list[Conflict]:
    """Given values that contradict their own equations, whatever the question."""
    conflicts = make_resolver(registry, given, variants, switch=switch).conflicts()
    return [conflict for conflict in conflicts if not conflict.replaces]
