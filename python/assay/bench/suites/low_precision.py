"""NumPy references of FP8 (E4M3), INT8 and INT4 quantization, by definition."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from assay.bench.harness.inputs import NumPyArray

LARGEST_E4M3: Final = 448.0
INT4_STEPS: Final = 15


@functools.cache
def e4m3() -> NumPyArray:
    """The value of every E4M3 byte: sign, 4 exponent bits (bias 7), 3 mantissa bits; no infinities."""
    code = np.arange(256)
    exponent, eighths = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, eighths * 2.0**-9, (8 + eighths) * 2.0 ** (exponent - 10))
    size = np.where(code & 127 == 127, np.nan, size)
    return np.where(code & 128, -size, size)


def to_e4m3(values: NumPyArray) -> NumPyArray:
    """Round to nearest E4M3, ties to even, saturating."""
    known = e4m3()[:127]
    size = np.minimum(np.abs(values), LARGEST_E4M3)
    above = np.searchsorted(known, size).clip(1, 126)
    below = above - 1
    to_above, to_below = known[above] - size, size - known[below]
    is_above = (to_above < to_below) | ((to_above == to_below) & (above % 2 == 0))
    code = np.where(is_above, above, below)
    return (code | np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def fp8_rows(values: NumPyArray) -> tuple[NumPyArray, NumPyArray, NumPyArray]:
    """E4M3 bytes, a scale for each row, and the dequantized values."""
    scales = (np.abs(values).max(axis=1) / LARGEST_E4M3).astype(np.float32)
    codes = to_e4m3(values / scales[:, None])
    return codes, scales, e4m3()[codes] * scales[:, None]


def int8_rows(values: NumPyArray) -> tuple[NumPyArray, NumPyArray, NumPyArray]:
    """INT8 values, a scale for each row, and the dequantized values."""
    scales = (np.abs(values).max(axis=1) / 127).astype(np.float32)
    codes = np.rint(values / scales[:, None]).astype(np.int8)
    return codes, scales, codes * scales[:, None].astype(np.float64)


def int4_groups(values: NumPyArray, group: int) -> NumPyArray:
    """Values rounded to 16 levels per group, as FP32.

    Levels are equidistant from the minimum to the maximum of the group, with an FP16 step;
    quantizing the result again does not change it.
    """
    groups = values.reshape(values.shape[0], -1, group)
    least = groups.min(axis=2, keepdims=True)
    step = ((groups.max(axis=2, keepdims=True) - least) / INT4_STEPS).astype(np.float16)
    least, step = (exact.astype(np.float16).astype(np.float32) for exact in (least, step))
    count = np.rint((groups - least) / step).clip(0, INT4_STEPS)
    return np.asarray((least + count * step).astype(np.float32).reshape(values.shape))
