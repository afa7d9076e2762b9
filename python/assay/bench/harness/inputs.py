"""Inputs that rotate past the cache, and outputs overwritten with NaN before use."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay.bench.harness.seeding import shifted
from assay.runtime.allocation import empty
from assay.runtime.array import Array
from assay.runtime.dtypes import BY_NAME, bfloat16
from assay.runtime.fingerprint import cache_bytes
from assay.runtime.hardware import Device
from assay.runtime.transfer import store, values
from assay.workloads.poisoning import fill_nan as fill_nan

NumPyArray = npt.NDArray[Any]

DTYPES: Final = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
"""Element types by the short names that weight formats use."""

_UNKNOWN_CACHE: Final = 128 << 20
_TIMES_THE_CACHE: Final = 2


def rotated_copies(device: Device, nbytes: int, quick: bool) -> int:
    """How many inputs of this size to rotate so that each is evicted before it is used again.

    A quick run uses two, and its figures are marked as not cold.
    """
    if quick:
        return 2
    cache = cache_bytes(device) or _UNKNOWN_CACHE
    return max(2, -(-_TIMES_THE_CACHE * cache // max(nbytes, 1)))


def standard_normal(shape: tuple[int, ...], seed: int) -> NumPyArray:
    """Normally distributed values, like activations and weights.

    Read-only and cached, because consecutive cases of a suite use the same ones.
    """
    return _standard_normal(shape, shifted(seed))


@functools.lru_cache(maxsize=4)
def _standard_normal(shape: tuple[int, ...], seed: int) -> NumPyArray:
    drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
    drawn.flags.writeable = False
    return drawn


_EXACT_IN_FP32 = 2**24
"""FP32 has every integer up to here."""


def small_integers(size: int, seed: int) -> NumPyArray:
    """Small integers as f32, whose sums are exact in FP64."""
    return np.random.default_rng(shifted(seed)).integers(0, 16, size).astype(np.float32)


def integers_with_exact_sum(size: int, seed: int, repeats: int = 1) -> NumPyArray:
    """Integers as f32 whose sum, repeated so often, is exact in FP32 in any order and grouping.

    No partial sum exceeds 2^24, up to which FP32 has every integer. Where there are more values
    than that, one in so many is 1 and the others are 0.
    """
    largest = min(_EXACT_IN_FP32 // max(size * repeats, 1), 15)
    if largest:
        return (
            np.random.default_rng(shifted(seed)).integers(0, largest + 1, size).astype(np.float32)
        )
    values = np.zeros(size, np.float32)
    values[:: -(-size * repeats // (_EXACT_IN_FP32 - repeats))] = 1.0
    return values


def upload(device: Device, host: NumPyArray, dtype: str = "f32") -> Array:
    """Host values in device memory."""
    return store("input", device, host, BY_NAME[DTYPES[dtype]])


def repeat(device: Device, part: Array, times: int) -> Array:
    """A one-dimensional array that repeats `part`, copied on the device."""
    out = empty(device, (part.size * times,), part.dtype, "repeat")
    for number in range(times):
        device.copy(
            "repeat", part.buffer, part.offset, out.buffer, number * part.nbytes, part.nbytes
        )
    return out


def download(array: Array) -> NumPyArray:
    """The values on the host, in double precision."""
    array.device.synchronize()
    return np.asarray(values(array), np.float64)


def fill_nan_and_free(array: Array) -> None:
    """Fill an array with NaN and free it: the pool reuses its memory for the next one as large."""
    fill_nan(array)
    array.device.synchronize()
    array.free()


def relative_error(got: NumPyArray, expected: NumPyArray) -> float:
    """The maximum absolute error over the maximum of `expected`; NaN if any value is NaN."""
    if got.shape != expected.shape:
        return float("nan")
    error = np.abs(got - expected).max(initial=0.0)
    return float(error / max(np.abs(expected).max(initial=0.0), np.finfo(np.float64).tiny))


def unit_roundoff(dtype: str) -> float:
    """The unit roundoff of an element type: the maximum relative error of rounding to it."""
    kind = BY_NAME[DTYPES[dtype]]
    return 2.0**-8 if kind is bfloat16 else float(np.finfo(kind.storage).eps) / 2
