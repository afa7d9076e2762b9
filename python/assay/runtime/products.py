"""The matrix product: NumPy's loops, or the processor's own where NumPy would have to widen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assay._native import Buffer
from assay.errors import ShapeError
from assay.runtime import dtypes, launching
from assay.runtime.array import Array
from assay.runtime.dtypes import FLOATING, NUMERIC, DType
from assay.runtime.layout import Shape, broadcast_shapes

_OWN_TYPES = (dtypes.float32, dtypes.bfloat16)


def matmul(first: Array, second: Array) -> Array:
    """The matrix product, batched over the leading axes."""
    common = dtypes.promote(first.dtype, second.dtype, "matmul")
    dtypes.require_kind(common, NUMERIC, "matmul")
    shape, inner = _product_shape(first.shape, second.shape)
    each = 8.0 if common.kind == "complex" else 2.0
    flops = each * math.prod(shape) * inner if common.kind in FLOATING else 0.0
    if _goes_to_own_kernel(first, second):
        return _own(first, second, shape, common, flops)
    kind = np.dtype(np.float32) if common is dtypes.bfloat16 else common.storage

    def kernel(a: Any, b: Any, out: Any) -> None:
        np.matmul(a.astype(kind, copy=False), b.astype(kind, copy=False), out=out)

    return launching.compute("matmul", kernel, [first, second], shape, common, flops=flops)


def _product_shape(first: Shape, second: Shape) -> tuple[Shape, int]:
    if not first or not second:
        raise ShapeError(f"matmul: expected at least 1 axis, got shapes {first} and {second}")
    rows = first[-2:-1]
    columns = second[-1:] if len(second) > 1 else ()
    inner = second[-2] if len(second) > 1 else second[0]
    if first[-1] != inner:
        raise ShapeError(
            f"matmul: expected equal inner extents, got {first[-1]} and {inner} "
            f"in shapes {first} and {second}"
        )
    batch = broadcast_shapes("matmul", first[:-2], second[:-2])
    return (*batch, *rows, *columns), inner


def _goes_to_own_kernel(first: Array, second: Array) -> bool:
    """Whether bfloat16 is among two matrices of pool memory that the own kernel can read."""
    pair = (first, second)
    return (
        any(array.dtype is dtypes.bfloat16 for array in pair)
        and all(array.dtype in _OWN_TYPES for array in pair)
        and first.device is second.device
        and first.device.host_memory
        and all(array.ndim <= 2 and array.size > 0 and array.buffer.pooled for array in pair)
        and all(
            stride >= 0 and stride % array.dtype.itemsize == 0
            for array in pair
            for stride in array.strides
        )
    )


def _own(first: Array, second: Array, shape: Shape, common: DType, flops: float) -> Array:
    inner = first.shape[-1]
    rows = first.shape[0] if first.ndim == 2 else 1
    columns = second.shape[1] if second.ndim == 2 else 1
    out = launching.empty(first.device, shape, common, "matmul")
    step = first.strides[-1] // first.dtype.itemsize
    down = first.strides[0] // first.dtype.itemsize if rows > 1 else inner
    along = second.strides[0] // second.dtype.itemsize
    across = second.strides[1] // second.dtype.itemsize if columns > 1 else inner
    first.device._context.product(
        "matmul",
        _operand(first, down, step),
        _operand(second, along, across),
        _operand(out, columns, 1),
        (rows, inner, columns),
        first.device.current_stream()._native,
        flops=flops,
    )
    return out


def _operand(array: Array, down: int, across: int) -> tuple[Buffer, int, int, int, bool]:
    return (array.buffer, array.offset, down, across, array.dtype is dtypes.bfloat16)
