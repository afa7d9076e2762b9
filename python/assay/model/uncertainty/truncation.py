"""Truncated distributions: quantiles conditional on a variable's bounds.

The part of a distribution outside the bounds is dropped, not clipped onto them: probabilities are
rescaled to the part inside.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from assay.array_types import Floats
from assay.model.language.distributions import Distribution, are_valid_parameters, quantile
from assay.model.language.normal import normal_share

Array: TypeAlias = Floats
Parameters: TypeAlias = tuple[Array | np.float64, ...]
Bound: TypeAlias = float | Array

LEAST_INSIDE = 1e-9
"""With less of a distribution than this inside the bounds, a quantile has no value."""


def truncated_quantile(
    kind: str, probability: Array, parameters: Parameters, lower: Bound, upper: Bound
) -> tuple[Array, Array]:
    """Quantiles of a distribution truncated to bounds, and the share outside them.

    Parameters and bounds may be arrays; where they describe no distribution, or next to nothing of it lies
    inside the bounds, the value is NaN.
    """
    with np.errstate(all="ignore"):
        below = share_below(kind, lower, parameters, inclusive=False)
        inside = share_below(kind, upper, parameters, inclusive=True) - below
        values = quantile(kind, below + inside * probability, parameters)
        usable = are_valid_parameters(kind, parameters) & (inside >= LEAST_INSIDE)
        # Rounding may carry a quantile across the bound it was computed from.
        values = np.where(usable, np.clip(values, lower, upper), math.nan)
    return values, np.broadcast_to(1.0 - inside, values.shape)


def truncated_quantile_of(
    distribution: Distribution, probability: Array, lower: float, upper: float
) -> tuple[Array, float]:
    """Quantiles of a given distribution truncated to bounds, and the share outside them."""
    if distribution.kind == "empirical":
        ordered = np.sort(np.asarray(distribution.parameters))
        first, last = _empirical_range(ordered, lower, upper)
        values = np.quantile(ordered, first + (last - first) * probability)
        return np.clip(values, lower, upper), 1.0 - (last - first)
    parameters = tuple(np.float64(value) for value in distribution.parameters)
    values, outside = truncated_quantile(distribution.kind, probability, parameters, lower, upper)
    return values, float(outside.flat[0])


def share_below(kind: str, bound: Bound, parameters: Parameters, *, inclusive: bool) -> Array:
    """The share of a distribution below a bound; `inclusive` counts a single value on it too."""
    location = np.asarray(parameters[0])
    if kind == "normal":
        spread = np.asarray(parameters[1])
        share = normal_share((bound - location) / spread)
    elif kind == "lognormal":
        spread = np.asarray(parameters[1])
        share = normal_share(np.log(np.maximum(bound, 0.0) / location) / spread)
    else:
        spread = np.asarray(parameters[-1]) - location
        height = np.clip((bound - location) / spread, 0.0, 1.0)
        share = height if kind == "uniform" else _triangular_share(height, parameters)
    single = location <= bound if inclusive else location < bound
    return np.where(spread > 0, share, single.astype(np.float64))


def _triangular_share(height: Array, parameters: Parameters) -> Array:
    lower, mode, upper = parameters
    split = np.asarray((mode - lower) / (upper - lower))
    rising = height**2 / np.where(split > 0, split, 1.0)
    falling = 1.0 - (1.0 - height) ** 2 / np.where(split < 1, 1.0 - split, 1.0)
    return np.where(height < split, rising, falling)


def _empirical_range(ordered: Array, lower: float, upper: float) -> tuple[float, float]:
    """The probabilities between which the interpolated sample lies within bounds."""
    steps = len(ordered) - 1
    if steps == 0:
        return 0.0, 1.0
    first, last = 0.0, 1.0
    position = int(np.searchsorted(ordered, lower, side="left"))
    if 0 < position <= steps:
        before, after = ordered[position - 1], ordered[position]
        first = (position - 1 + (lower - before) / (after - before)) / steps
    position = int(np.searchsorted(ordered, upper, side="right"))
    if 0 < position <= steps:
        before, after = ordered[position - 1], ordered[position]
        last = (position - 1 + (upper - before) / (after - before)) / steps
    return float(first), float(last)
