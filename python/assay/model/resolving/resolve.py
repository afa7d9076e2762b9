"""Resolve: compute a variable from given inputs, with trace, missing inputs and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.dynamics import Stochastic
from assay.model.resolving.resolution import Conflict, Resolution, TargetValue
from assay.model.resolving.resolver import Resolver
from assay.model.selection import check_variants

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


def resolve(
    registry: Declarations,
    target: str,
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
) -> Resolution:
    """Compute `target`; missing inputs, verdicts and conflicts are part of the result, not errors."""
    registry.variable(target)
    return account(make_resolver(registry, given, variants, switch=switch), target)


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


def account(resolver: Resolver, target: str) -> Resolution:
    """The value of a target with its trace, missing inputs, verdicts and conflicts."""
    value = resolver.value(target)
    cone = resolver.cone(target)
    lower, upper, degradations = _interval(resolver, target, value, cone)
    constraints = resolver.constraints(cone)
    return Resolution(
        target=target,
        value=value,
        lower=lower,
        upper=upper,
        variable=resolver.registry.variable(target),
        values={name: v for name, v in resolver.values.items() if v is not None},
        trace=resolver.trace(cone),
        missing=resolver.missing(target),
        constraints=constraints,
        validity=resolver.validities(cone),
        conflicts=resolver.conflicts(),
        switches=[resolver.switches[name] for name in resolver.values if name in resolver.switches],
        degradations=degradations,
    )


def target_value(resolver: Resolver, target: str) -> TargetValue:
    """The value and interval of a further target, from what the resolver has computed already."""
    value = resolver.value(target)
    lower, upper, _ = _interval(resolver, target, value, resolver.cone(target))
    variable = resolver.registry.variable(target)
    return TargetValue(variable, value, lower, upper, len(resolver.missing(target)))


def _interval(
    resolver: Resolver, target: str, value: float | None, cone: set[str]
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """The 5th and 95th percentile where a source of uncertainty reaches the target."""
    registry, inputs = resolver.registry, resolver.inputs
    drawn = any(isinstance(resolver.chosen.get(name), Stochastic) for name in cone)
    if value is None or not (drawn or inputs.distributions):
        return value, value, ()
    from assay.model.uncertainty.sources import UncertaintyQuery, find_sources

    variants, switch = resolver.variants, resolver.switch
    # An uncertain input may decide which relation is valid without being part of the cone.
    if not find_sources(UncertaintyQuery(registry, (target,), inputs, variants, switch)).names:
        return value, value, ()
    from assay.model.uncertainty.propagate import interval

    return interval(registry, target, inputs, variants, switch=switch)


def find_conflicts(
    registry: Declarations,
    given: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
) -> list[Conflict]:
    """Given values that contradict their own equations, whatever the question."""
    return make_resolver(registry, given, variants, switch=switch).conflicts()
