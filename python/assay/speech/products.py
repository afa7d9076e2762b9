"""Products of the host's arrays by our own kernels.

NumPy would give them to a BLAS: how fast a small one is depends on which, and its threads go on spinning behind a large
one, on the cores that kernels want.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import assay._native as native
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


def linear(
    x: Floats,
    weights: Floats,
    bias: Floats | None = None,
    *,
    relu: bool = False,
    out: Floats | None = None,
) -> Floats:
    """The product x @ weights.T + bias, in single precision; x is a row, or rows, which may overlap each other."""
    if out is None:
        out = np.empty((*x.shape[:-1], len(weights)), np.float32)
    native.host_linear(x, weights, bias, out, relu=relu)
    return out
