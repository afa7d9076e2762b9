"""Sobol indices from the outcomes of Saltelli's design.

Saltelli, A. et al. (2010), Variance based sensitivity analysis of model output, Computer Physics
Communications 181(2), table 2: estimator (b) of the first order and (f), Jansen's, of the total.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from assay.model.uncertainty.truncation import Array

_RESAMPLES = 100
_Z95 = 1.959963984540054
"""Half-width of a central 95 % interval in standard deviations."""


class SobolIndex(NamedTuple):
    """Indices of one source, and half-widths of their 95 % intervals."""

    first_order: float
    total_order: float
    first_half_width: float
    total_half_width: float


def sobol_indices(outcomes: Array, seed: int) -> list[SobolIndex]:
    """The indices of every source; columns are A, A with one source of B each, and B.

    Intervals are bootstrapped over rows.
    """
    # Outcomes far from zero would cost digits.
    centered = (outcomes - outcomes.mean()) / outcomes.std()
    first, second = centered[:, 0], centered[:, -1]
    variance = np.concatenate((first, second)).var()
    rows = np.random.default_rng(seed).integers(len(first), size=(len(first), _RESAMPLES))
    resampled = first[rows], second[rows]
    variances = np.concatenate(resampled).var(axis=0)
    indices = []
    for crossed in centered.T[1:-1]:
        again = crossed[rows]
        indices.append(
            SobolIndex(
                float(_ratio(_first_order(first, crossed, second), variance)),
                float(_ratio(_total_order(first, crossed), variance)),
                _half_width(_first_order(resampled[0], again, resampled[1]), variances),
                _half_width(_total_order(resampled[0], again), variances),
            )
        )
    return indices


def _first_order(first: Array, crossed: Array, second: Array) -> Array:
    mean: Array = np.mean(second * (crossed - first), axis=0)
    return mean


def _total_order(first: Array, crossed: Array) -> Array:
    mean: Array = 0.5 * np.mean((first - crossed) ** 2, axis=0)
    return mean


def _ratio(part: Array, variance: Array) -> Array:
    """A part of the variance; none where nothing varies, as a resample of few rows may not."""
    varies = variance > np.finfo(float).eps
    return np.where(varies, part / np.where(varies, variance, 1.0), 0.0)


def _half_width(parts: Array, variances: Array) -> float:
    return _Z95 * float(_ratio(parts, variances).std(ddof=1))
