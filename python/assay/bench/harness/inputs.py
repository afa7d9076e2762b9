"""Inputs that no cache and no shortcut can know beforehand, and outputs spoilt before use."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay.runtime.allocation import empty
from assay.runtime.array import Array
from assay.runtime.dtypes import BY_NAME, bfloat16
from assay.runtime.fingerprint import cache_bytes
from assay.runtime.hardware import Device
from assay.runtime.transfer import store, values

NumPyArray = npt.NDArray[Any]

DTYPES: Final = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
"""The short names of element types, as formats of weights are called too."""

_UNKNOWN_CACHE: Final = 128 << 20
_TIMES_THE_CACHE: Final = 2
_POISON: Final = 0xFF
"""Every byte of a spoilt output: not a number in every floating type, -1 in integers."""


def copies(device: Device, nbytes: int, quick: bool) -> int:
    """How many inputs of this size to rotate so that none is in the cache when its turn comes.

    A quick run takes two: its figures say that they are not cold.
    """
    if quick:
        return 2
    cache = cache_bytes(device) or _UNKNOWN_CACHE
    return max(2, -(-_TIMES_THE_CACHE * cache // max(nbytes, 1)))


@functools.lru_cache(maxsize=4)
def normal(shape: tuple[int, ...], seed: int) -> NumPyArray:
    """Values as activations and weights have them: neither zero nor alike.

    Cases of a suite that follow each other get the same ones, which cannot be written.
    """
    drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
    drawn.flags.writeable = False
    return drawn


def counts(size: int, seed: int) -> NumPyArray:
    """Small whole numbers as f32, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(0, 16, size).astype(np.float32)


def place(device: Device, host: NumPyArray, dtype: str = "f32") -> Array:
    """Host values in the device's own memory."""
    return store("input", device, host, BY_NAME[DTYPES[dtype]])


def repeat(device: Device, part: Array, times: int) -> Array:
    """An array of one axis with the same elements again and again, copied within the device."""
    out = empty(device, (part.size * times,), part.dtype, "repeat")
    for number in range(times):
        device.copy(
            "repeat", part.buffer, part.offset, out.buffer, number * part.nbytes, part.nbytes
        )
    return out


def fetch(array: Array) -> NumPyArray:
    """The values on the host, in double precision."""
    array.device.synchronize()
    return np.asarray(values(array), np.float64)


def spoil(array: Array) -> None:
    """Make an array not a number, so that a result that is not written cannot pass for one."""
    array.device.fill("spoil", array.buffer, array.offset, _POISON, array.nbytes)


def spoil_like(array: Array) -> None:
    """Spoil and free an array: its memory is what the pool hands out next for one as large."""
    spoil(array)
    array.device.synchronize()
    array.free()


def far(got: NumPyArray, wanted: NumPyArray) -> float:
    """The largest distance over the largest value wanted; NaN where anything is not a number."""
    if got.shape != wanted.shape:
        return float("nan")
    distance = np.abs(got - wanted).max(initial=0.0)
    return float(distance / max(np.abs(wanted).max(initial=0.0), np.finfo(np.float64).tiny))


def rounding(dtype: str) -> float:
    """The largest relative error of rounding to an element type."""
    kind = BY_NAME[DTYPES[dtype]]
    return 2.0**-8 if kind is bfloat16 else float(np.finfo(kind.storage).eps) / 2
