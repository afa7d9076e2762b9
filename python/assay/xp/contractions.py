"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.errors import ShapeError
from assay.runtime import dtypes, elementwise, numpy_kernels
from assay.runtime.array import Array
from assay.runtime.dtypes import FLOATING, NUMERIC, DType
from assay.runtime.layout import broadcast_shapes, normalize_axis


def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product, batched over the leading axes."""
    return elementwise.require(elementwise.matmul(x1, x2), "matmul", x1, x2)


def _joined(x1: Array, x2: Array, operation: str) -> tuple[DType, np.dtype[Any]]:
    promoted = dtypes.promote(x1.dtype, x2.dtype, operation)
    dtypes.require_kind(promoted, NUMERIC, operation)
    return promoted, np.dtype(np.float32) if promoted is dtypes.bfloat16 else promoted.storage


def _flops(dtype: DType, products: int) -> float:
    each = 8.0 if dtype.kind == "complex" else 2.0
    return each * products if dtype.kind in FLOATING else 0.0


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis, with the first operand conjugated."""
    promoted, kind = _joined(x1, x2, "vecdot")
    if axis >= 0:
        raise ShapeError(f"vecdot: expected an axis below 0, got {axis}", "count from the end")
    for x in (x1, x2):
        normalize_axis(axis, x.ndim, "vecdot")
    if x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(
            f"vecdot: expected equal extents on axis {axis}, got shapes {x1.shape} and {x2.shape}"
        )
    whole = broadcast_shapes("vecdot", x1.shape, x2.shape)
    dim = axis % len(whole)
    shape = (*whole[:dim], *whole[dim + 1 :])

    def kernel(a: Any, b: Any, out: Any) -> None:
        first = np.conjugate(a.astype(kind, copy=False))
        np.sum(first * b.astype(kind, copy=False), axis=axis, dtype=kind, out=out)

    flops = _flops(promoted, math.prod(whole))
    return numpy_kernels.compute("vecdot", kernel, [x1, x2], shape, promoted, flops=flops)


def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:
    """The sum of products over pairs of axes."""
    promoted, kind = _joined(x1, x2, "tensordot")
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ShapeError(f"tensordot: expected 0 to {min(x1.ndim, x2.ndim)} axes, got {axes}")
        first = list(range(x1.ndim - axes, x1.ndim))
        second = list(range(axes))
    else:
        first = [normalize_axis(axis, x1.ndim, "tensordot") for axis in axes[0]]
        second = [normalize_axis(axis, x2.ndim, "tensordot") for axis in axes[1]]
    summed = [x1.shape[axis] for axis in first]
    if summed != [x2.shape[axis] for axis in second]:
        raise ShapeError(
            f"tensordot: expected equal extents on axes {first} and {second}, "
            f"got shapes {x1.shape} and {x2.shape}"
        )
    left = tuple(extent for axis, extent in enumerate(x1.shape) if axis not in first)
    right = tuple(extent for axis, extent in enumerate(x2.shape) if axis not in second)

    def kernel(a: Any, b: Any, out: Any) -> None:
        pair = (a.astype(kind, copy=False), b.astype(kind, copy=False))
        np.copyto(out, np.tensordot(*pair, axes=(first, second)))

    flops = _flops(promoted, math.prod((*left, *right, *summed)))
    return numpy_kernels.compute("tensordot", kernel, [x1, x2], left + right, promoted, flops=flops)
