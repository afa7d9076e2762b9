"""Correlations of fitted constants, as calibration files hold them.

The covariance is that of the logarithms at the optimum: the inverse of J'J where residuals have unit
scale and priors are residuals too (Laplace's approximation), or the cluster-robust sandwich where
rows are many and not independent. Standard errors are beside each constant, so that the correlations
are all that is left to store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.array_types import Floats

DIGITS = 2
_LEAST_EIGENVALUE = 1e-3
_SHRINKING = 0.98


def correlation_block(names: Sequence[str], covariance: Floats) -> dict[str, Any]:
    """Names and the rows below the diagonal, rounded to a matrix that is positive definite."""
    deviations = np.sqrt(np.diag(covariance))
    matrix = covariance / np.outer(deviations, deviations)
    rounded = np.round(matrix, DIGITS)
    while np.linalg.eigvalsh(rounded).min() < _LEAST_EIGENVALUE:
        matrix = _SHRINKING * matrix + (1 - _SHRINKING) * np.eye(len(matrix))
        rounded = np.round(matrix, DIGITS)
    below = [[float(value) for value in rounded[row, :row]] for row in range(1, len(names))]
    return {"names": list(names), "below": below}
