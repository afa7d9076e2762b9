"""Work to do next on a model and a scenario, ranked by how much rests on each item."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import AssayError
from assay.model.auditing.work import WorkItem, model_work
from assay.model.registry import Registry
from assay.scenario.named_scenario import Preset

SHARES_COUNT = 256
"""Sample points a source: enough for a ranking."""


def next_work(registry: Registry, preset: Preset | None = None) -> list[WorkItem]:
    """Work on the model, weightiest first.

    With a preset also its assumed inputs, by the variance that rests on them, and the targets that it
    gives no value for.
    """
    items = model_work(registry)
    if preset is not None:
        items += _scenario_items(registry, preset)
    return sorted(items, key=lambda item: (-item.weight, item.kind, item.name))


def _scenario_items(registry: Registry, preset: Preset) -> list[WorkItem]:
    counts = registry.graph.dependent_counts()
    inputs = preset.inputs
    assumed = {n for n in inputs.distributions if preset.assignments[n].kind == "assumed"}
    items: list[WorkItem] = []
    complete: list[str] = []
    for _, target in preset.targets:
        try:
            # Medians only: finding missing inputs needs no intervals.
            registry.resolve(target, inputs.values, preset.variants).require_value()
            complete.append(target)
        except AssayError as error:
            items.append(WorkItem("complete scenario", target, error.message, 1.0, 0, target))
    largest: dict[str, tuple[float, str]] = {}
    for target, shares in _shares(registry, preset, complete).items() if assumed else ():
        for name in assumed & shares.keys():
            largest[name] = max(largest.get(name, (0.0, target)), (shares[name], target))
    for name, (share, target) in largest.items():
        reason = f"an assumed value on which {share:.0%} of the variance of {target} rests"
        weight = min(max(share, 0.0), 1.0)
        items.append(WorkItem("measure input", name, reason, weight, counts[name], target))
    return items


def _shares(
    registry: Registry, preset: Preset, targets: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Total-order shares of every target's variance by source, from one design for all."""
    import numpy as np

    from assay.model.uncertainty import propagate
    from assay.model.uncertainty.correlation import joined_labels
    from assay.model.uncertainty.sampling import nominal_values
    from assay.model.uncertainty.sources import find_sources

    query = propagate.make_query(registry, targets, preset.inputs, preset.variants, True)
    sources = find_sources(query)
    if not targets or not sources.names:
        return {}
    nominal = nominal_values(query)
    evaluator, reason = propagate.choose_evaluator(query, sources, nominal)
    if reason:
        return {target: _shares_of_one(registry, preset, target) for target in targets}
    start, other = evaluator.point_pairs(SHARES_COUNT, 0)
    before = evaluator(start)
    shares: dict[str, dict[str, float]] = {target: {} for target in targets}
    labels = joined_labels(sources.names, evaluator.blocks)
    for label in dict.fromkeys(labels):
        rows = [row for row, other in enumerate(labels) if other == label]
        crossed = start.copy()
        crossed[rows] = other[rows]
        after = evaluator(crossed)
        for target, first, second in zip(targets, before, after, strict=True):
            finite = np.isfinite(first) & np.isfinite(second)
            variance = float(np.var(first[finite])) if finite.any() else 0.0
            # Jansen 1999: half the mean squared change when one source is resampled.
            changed = float(np.mean((first - second)[finite] ** 2)) / 2 if variance else 0.0
            share = changed / variance if variance else 0.0
            shares[target] |= dict.fromkeys((sources.names[row] for row in rows), share)
    return shares


def _shares_of_one(registry: Registry, preset: Preset, target: str) -> dict[str, float]:
    from assay.model.uncertainty.propagate import variance_shares

    try:
        shares = variance_shares(
            registry, target, preset.inputs, preset.variants, count=SHARES_COUNT
        )
    except AssayError:
        # The central value is finite, but too few sample points are.
        return {}
    return {name: share.total_order for share in shares for name in shares.members[share.name]}
