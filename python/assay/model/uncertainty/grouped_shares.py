"""Shares of the variance of several targets by group of sources, from one tape for all.

Compiling the cone of a target takes longer than evaluating it at thousands of points, so the
targets of a scenario are evaluated together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay.errors import UnsupportedError
from assay.model.inputs import Given, Inputs
from assay.model.uncertainty.correlation import joined_labels
from assay.model.uncertainty.propagate import SHARES_COUNT, choose_evaluator, make_query
from assay.model.uncertainty.sampling import nominal_values
from assay.model.uncertainty.sources import find_sources

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


def shares_by_group(
    registry: Declarations,
    targets: Sequence[str],
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str],
    groups: Mapping[str, str],
    *,
    count: int = SHARES_COUNT,
    seed: int = 0,
    nominal: Mapping[str, float] | None = None,
) -> dict[str, dict[str, float]]:
    """Total-order share of every group in the variance of each target, largest first.

    A source without a group forms one; groups whose sources are correlated form one together. The
    estimator is that of Jansen 1999, Analysis of variance designs for model output: half the mean
    squared change of the target when a group is resampled, over its variance. `nominal` holds the
    values at the medians, if they are resolved already.
    """
    query = make_query(registry, targets, given, variants, True)
    sources = find_sources(query)
    values = nominal_values(query) if nominal is None else nominal
    evaluator, reason = choose_evaluator(query, sources, values)
    if reason:
        raise UnsupportedError(f"shares of several targets at once: {reason}")
    labels = joined_labels([groups.get(name, name) for name in sources.names], evaluator.blocks)
    first, second = evaluator.point_pairs(count, seed)
    start, end = evaluator(first), evaluator(second)
    variance = np.nanvar(np.concatenate([start, end], axis=1), axis=1)
    by_target: dict[str, dict[str, float]] = {name: {} for name in query.targets}
    for label in dict.fromkeys(labels):
        rows = [row for row, other in enumerate(labels) if other == label]
        crossed = first.copy()
        crossed[rows] = second[rows]
        moved = np.nanmean((start - evaluator(crossed)) ** 2, axis=1) / 2
        for row, name in enumerate(query.targets):
            if variance[row] > 0 and moved[row] > 0:
                by_target[name][label] = float(min(1.0, moved[row] / variance[row]))
    return {
        name: dict(sorted(shares.items(), key=lambda item: -item[1]))
        for name, shares in by_target.items()
    }
