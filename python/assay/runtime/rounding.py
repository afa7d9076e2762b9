"""bfloat16 as NumPy sees it: stored in 16 bits, computed in float32, rounded to nearest even."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from assay.array_types import Floats

_QUIET = np.uint32(0x0040_0000)
_EXPONENT = np.uint32(0x7F80_0000)
_MAGNITUDE = np.uint32(0x7FFF_FFFF)


def widen(stored: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """The values of stored elements; exact."""
    bits = stored.astype(np.uint32)
    bits <<= np.uint32(16)
    return bits.view(np.float32)


def narrow(values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """The nearest stored elements, ties to even; NaN stays NaN.

    >>> narrow(widen(np.asarray([0x3F80, 0x4000], np.uint16)) * np.float32(2)).tolist() == [
    ...     0x4000, 0x4080
    ... ]
    True
    """
    if values.dtype == np.float32:
        bits = np.asarray(values, np.float32).reshape(values.shape).view(np.uint32)
    else:
        bits = to_odd(np.asarray(values, np.float64)).view(np.uint32)
    is_nan = (bits & _MAGNITUDE) > _EXPONENT
    # Adding just under half, or half where the kept part is odd, carries into the kept part.
    carried = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    kept = np.where(is_nan, bits | _QUIET, carried) >> np.uint32(16)
    return kept.astype(np.uint16)


def to_odd(values: Floats) -> npt.NDArray[np.float32]:
    """The values in float32, rounded to odd, so that a second rounding is as good as one."""
    with np.errstate(all="ignore"):
        near = values.astype(np.float32)
    bits = near.view(np.uint32)
    back = near.astype(np.float64)
    inexact = (back != values) & np.isfinite(values)
    # Round to odd: truncate, then set the lowest bit if any lower bit was set.
    shrunk = bits - (np.abs(back) > np.abs(values)).astype(np.uint32)
    odd: npt.NDArray[np.uint32] = np.where(inexact, shrunk | np.uint32(1), bits).astype(np.uint32)
    return odd.view(np.float32)
