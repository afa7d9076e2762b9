"""Resolve: compute a variable from given inputs, with trace, missing inputs and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.errors import AssayError
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.dynamics import Stochastic
from assay.model.resolving.resolution import Conflict, Resolution, TargetValue
from assay.model.resolving.resolver import Resolver
from assay.model.selection import check_variants

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

Interval = tuple[float | None, float | None, tuple[str, ...]] | AssayError
"""Lower and upper end with `degradations` as in `Resolution`, or why there are none."""


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


def account(
    resolver: Resolver, target: str, intervals: Mapping[str, Interval] | None = None
) -> Resolution:
    """The value of a target with its trace, missing inputs, verdicts and conflicts.

    `intervals` are those of several targets that `find_intervals` found together.
    """
    value = resolver.value(target)
    cone = resolver.cone(target)
    found = (find_intervals(resolver, [target]) if intervals is None else intervals)[target]
    if isinstance(found, AssayError):
        raise found
    lower, upper, degradations = found
    constraints = resolver.constraints(cone)
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
        validity=resolver.validities(cone),
        conflicts=resolver.conflicts(),
        switches=[resolver.switches[name] for name in resolver.values if name in resolver.switches],
        degradations=degradations,
    )


def target_values(resolver: Resolver, targets: Sequence[str]) -> list[TargetValue]:
    """The values and intervals of further targets; those that fail are left out."""
    values: dict[str, float | None] = {}
    for target in targets:
        try:
            values[target] = resolver.value(target)
        except AssayError:
            continue
    intervals = find_intervals(resolver, list(values))
    found = []
    for target, value in values.items():
        interval = intervals[target]
        if not isinstance(interval, AssayError):
            variable, gaps = resolver.registry.variable(target), len(resolver.missing(target))
            found.append(TargetValue(variable, value, interval[0], interval[1], gaps))
    return found


def find_intervals(resolver: Resolver, targets: Sequence[str]) -> dict[str, Interval]:
    """The 5th and 95th percentile of each target, from one sample for all of them.

    Both are the value itself where no source of uncertainty reaches the target.
    """
    values = {target: resolver.value(target) for target in targets}
    found: dict[str, Interval] = {name: (value, value, ()) for name, value in values.items()}
    drawn = any(isinstance(relation, Stochastic) for relation in resolver.chosen.values())
    known = tuple(name for name, value in values.items() if value is not None)
    if not known or not (drawn or resolver.inputs.distributions):
        return found
    from assay.model.uncertainty.sources import UncertaintyQuery, find_sources

    query = UncertaintyQuery(
        resolver.registry, known, resolver.inputs, resolver.variants, resolver.switch
    )
    # An uncertain input may decide which relation is valid without being part of the cone.
    sources = find_sources(query)
    uncertain = tuple(name for name in known if name in sources.varying)
    if not uncertain:
        return found
    from assay.model.uncertainty.propagate import intervals

    if uncertain != known:
        query = replace(query, targets=uncertain)
        sources = find_sources(query)
    return found | intervals(query, sources, resolver.known_values)


def find_conflicts(
    registry: Declarations,
    given: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
) -> list[Conflict]:
    """Given values that contradict their own equations, whatever the question."""
    return make_resolver(registry, given, variants, switch=switch).conflicts()
