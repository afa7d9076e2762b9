"""Padding and interpolation of the last axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import InputError, ShapeError
from assay.lazy_import import np
from assay.ops.operands import F32, check
from assay.runtime import allocation, dtypes, transfer
from assay.runtime.array import Array

if TYPE_CHECKING:
    import numpy.typing as npt


def pad(x: Array, before: int, after: int, *, mode: str = "reflect", value: float = 0.0) -> Array:
    """The last axis with elements before and after it: reflected, its ends repeated ("edge"), or constant."""
    check("pad", "x", x, None, F32)
    if min(before, after) < 0 or mode not in ("reflect", "edge", "constant") or x.ndim == 0:
        raise InputError(
            f"pad: expected 0 or more elements, reflect, edge or constant, got {before}, {after} and {mode}"
        )
    length = x.shape[-1]
    if mode == "reflect" and max(before, after) >= max(length, 1):
        raise ShapeError(
            f"pad: expected less than {length} elements to reflect, got {before} and {after}"
        )
    if mode == "edge" and length == 0 and before + after:
        raise ShapeError("pad: expected an element to repeat, got none")
    out = allocation.empty(
        x.device, (*x.shape[:-1], before + length + after), dtypes.float32, "pad"
    )
    out[..., before : before + length] = x
    end = before + length
    if mode == "constant":
        out[..., :before] = value
        out[..., end:] = value
    elif mode == "edge":
        out[..., :before] = x[..., :1]
        out[..., end:] = x[..., length - 1 :]
    else:
        out[..., :before] = x[..., before:0:-1]
        out[..., end:] = (
            x[..., length - 2 : length - 2 - after : -1] if after < length - 1 else x[..., -2::-1]
        )
    return out


def interpolate(
    x: Array, length: int, *, mode: str = "nearest", align_corners: bool = False
) -> Array:
    """The last axis at another length: the nearest element, or linear between two, as PyTorch's `interpolate`.

    Places are exact, where PyTorch rounds them to single precision: of 10,000 elements, its linear results are off by
    2e-3 of a step, and a few of the nearest are neighbors.
    """
    check("interpolate", "x", x, None, F32)
    if mode not in ("nearest", "linear") or x.ndim == 0 or length < 0:
        raise InputError(
            f"interpolate: expected a length and nearest or linear, got {length} and {mode}"
        )
    samples = x.shape[-1]
    if samples == 0 and length:
        raise ShapeError("interpolate: expected an element, got none")
    from assay import xp

    def at(places: npt.NDArray[np.int64]) -> Array:
        return xp.take(x, xp.asarray(places, device=x.device), axis=-1)

    places = np.arange(length)
    if mode == "nearest":
        return at(places * samples // max(length, 1))
    if align_corners:
        exact = places * ((samples - 1) / max(length - 1, 1))
    else:
        exact = np.maximum((places + 0.5) * samples / max(length, 1) - 0.5, 0)
    left = np.minimum(exact.astype(np.int64), max(samples - 1, 0))
    right = np.minimum(left + 1, max(samples - 1, 0))
    share = transfer.store("interpolate", x.device, exact - left, dtypes.float32)
    before: Array = at(left)
    result: Array = before + share * (at(right) - before)
    return result
