"""Outputs overwritten on their device, so that what is not written again cannot pass a check."""

from __future__ import annotations

from typing import Final

from assay.runtime.array import Array

_NAN_BYTE: Final = 0xFF
"""Fills an array with NaN in every floating type, with -1 in integers."""


def fill_nan(array: Array) -> None:
    """Fill an array with NaN, in the order of the current stream."""
    array.device.fill("fill_nan", array.buffer, array.offset, _NAN_BYTE, array.nbytes)
