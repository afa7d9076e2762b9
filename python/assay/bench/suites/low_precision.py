"""Numbers of 8 and 4 bits by their definitions, in NumPy: what kernels for them are held against."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from assay.bench.harness.inputs import NumPyArray

LARGEST_E4M3: Final = 448.0
INT4_STEPS: Final = 15


@functools.cache
def e4m3() -> NumPyArray:
    """What every byte stands for: sign, 4 bits of exponent from -7, 3 bits; no infinities."""
    code = np.arange(256)
    exponent, eighths = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, eighths * 2.0**-9, (8 + eighths) * 2.0 ** (exponent - 10))
    size = np.where(code & 127 == 127, np.nan, size)
    return np.where(code & 128, -size, size)


def to_e4m3(values: NumPyArray) -> NumPyArray:
    """The bytes of the nearest numbers, ties to even ones; beyond the largest, the largest."""
    known = e4m3()[:127]
    size = np.minimum(np.abs(values), LARGEST_E4M3)
    above = np.searchsorted(known, size).clip(1, 126)
    below = above - 1
    to_above, to_below = known[above] - size, size - known[below]
    is_above = (to_above < to_below) | ((to_above == to_below) & (above % 2 == 0))
    code = np.where(is_above, above, below)
    return (code | np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def fp8_rows(values: NumPyArray) -> tuple[NumPyArray, NumPyArray, NumPyArray]:
    """Bytes, a scale for each row, and what they stand for."""
    scales = (np.abs(values).max(axis=1) / LARGEST_E4M3).astype(np.float32)
    codes = to_e4m3(values / scales[:, None])
    return codes, scales, e4m3()[codes] * scales[:, None]


def int8_rows(values: NumPyArray) -> tuple[NumPyArray, NumPyArray, NumPyArray]:
    """Signed bytes, a scale for each row, and what they stand for."""
    scales = (np.abs(values).max(axis=1) / 127).astype(np.float32)
    codes = np.rint(values / scales[:, None]).astype(np.int8)
    return codes, scales, codes * scales[:, None].astype(np.float64)


def int4_groups(values: NumPyArray, group: int) -> NumPyArray:
    """The nearest of 16 numbers of each group, as single precision.

    They are equally far apart, from the least of the group to its largest, in steps that half
    precision holds; rounding them once more gives the same.
    """
    parts = values.reshape(values.shape[0], -1, group)
    least = parts.min(axis=2, keepdims=True)
    step = ((parts.max(axis=2, keepdims=True) - least) / INT4_STEPS).astype(np.float16)
    least, step = (one.astype(np.float16).astype(np.float32) for one in (least, step))
    count = np.rint((parts - least) / step).clip(0, INT4_STEPS)
    return np.asarray((least + count * step).astype(np.float32).reshape(values.shape))
