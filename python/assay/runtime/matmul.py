"""Matrix multiplication: the device's GEMM kernels, or NumPy's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from assay._native import FORMATS, Buffer
from assay.errors import DeviceError, ShapeError
from assay.runtime import allocation, dtypes, numpy_kernels, transfer
from assay.runtime.array import Array
from assay.runtime.dtypes import FLOATING, NUMERIC, DType
from assay.runtime.layout import Shape, broadcast, broadcast_shapes

_Operand = tuple[Buffer, int, int, int]

_CPU_KERNEL_DTYPES = (dtypes.float32, dtypes.bfloat16)
_CODES: Final = {
    dtypes.float32: FORMATS["f32"],
    dtypes.float16: FORMATS["f16"],
    dtypes.bfloat16: FORMATS["bf16"],
}


def matmul(first: Array, second: Array) -> Array:
    """The matrix product, batched over the leading axes."""
    common = dtypes.promote(first.dtype, second.dtype, "matmul")
    dtypes.require_kind(common, NUMERIC, "matmul")
    shape, inner = _product_shape(first.shape, second.shape)
    flops_each = 8.0 if common.kind == "complex" else 2.0
    flops = flops_each * math.prod(shape) * inner if common.kind in FLOATING else 0.0
    if _has_gemm_kernel(first, second):
        return _run_gemm(first, second, shape, common, flops)
    kind = np.dtype(np.float32) if common is dtypes.bfloat16 else common.storage

    def kernel(a: Any, b: Any, out: Any) -> None:
        np.matmul(a.astype(kind, copy=False), b.astype(kind, copy=False), out=out)

    return numpy_kernels.compute("matmul", kernel, [first, second], shape, common, flops=flops)


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


def _has_gemm_kernel(first: Array, second: Array) -> bool:
    """Whether the device has a GEMM kernel for both that beats NumPy.

    On a CPU that is the case for bfloat16 operands in pool memory: NumPy would widen them first.
    """
    pair = (first, second)
    if first.device.capabilities.has_array_kernels and first.device is second.device:
        return first.dtype is second.dtype and first.dtype in _CODES and 0 not in first.shape
    return (
        any(array.dtype is dtypes.bfloat16 for array in pair)
        and all(array.dtype in _CPU_KERNEL_DTYPES for array in pair)
        and first.device is second.device
        and first.device.host_memory
        and all(array.ndim <= 2 and array.size > 0 and array.buffer.pooled for array in pair)
        and all(
            stride >= 0 and stride % array.dtype.itemsize == 0
            for array in pair
            for stride in array.strides
        )
    )


def _run_gemm(first: Array, second: Array, shape: Shape, common: DType, flops: float) -> Array:
    out = allocation.empty(first.device, shape, common, "matmul")
    if out.size == 0:
        return out
    left = first if first.ndim > 1 else first[None, :]
    right = second if second.ndim > 1 else second[:, None]
    if first.device.capabilities.has_array_kernels:
        left, right = _as_gemm_operands(left, right)
    nbytes = first.nbytes + second.nbytes + out.nbytes
    launch_gemm(left, right, out, "matmul", nbytes, flops)
    return out


def _as_gemm_operands(left: Array, right: Array) -> tuple[Array, Array]:
    """Both broadcast to one batch, in pool memory, with one stride through the batch."""
    batch = broadcast_shapes("matmul", left.shape[:-2], right.shape[:-2])
    operands = []
    for one in (left, right):
        broadcasted = one.view(broadcast(one.layout, (*batch, *one.shape[-2:]), "matmul"))
        readable = (
            one.buffer.pooled
            and all(stride >= 0 for stride in broadcasted.strides)
            and _batch_stride(broadcasted.shape[:-2], broadcasted.strides[:-2]) is not None
        )
        operands.append(broadcasted if readable else transfer.copy(broadcasted, "matmul"))
    return operands[0], operands[1]


def launch_gemm(a: Array, b: Array, out: Array, label: str, nbytes: int, flops: float) -> None:
    """Queue the device's GEMM of two matrices, or batches of them, into contiguous memory."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    (a_operand, a_strides), (b_operand, b_strides) = _gemm_operand("a", a), _gemm_operand("b", b)
    a.device.operate(
        "matmul",
        [a_operand, b_operand, (out.buffer, out.offset, out.nbytes, _CODES[out.dtype])],
        (math.prod(batch), m, k, n, *a_strides, *b_strides),
        label=label,
        bytes=nbytes,
        flops=flops,
    )


def _gemm_operand(name: str, array: Array) -> tuple[_Operand, tuple[int, int, int]]:
    """The memory, and the batch, row and column strides in elements."""
    size = array.dtype.itemsize
    if any(stride < 0 or stride % size for stride in array.strides):
        raise ShapeError(f"matmul: expected {name} with strides of 0 or more, got {array.strides}")
    if not array.buffer.pooled:
        raise DeviceError(
            f"matmul: expected {name} in the device's own memory, got borrowed memory",
            "copy it with assay.xp.asarray(x, copy=True)",
        )
    strides = [stride // size for stride in array.strides]
    batch = _require_batch_stride(name, array.shape[:-2], strides[:-2])
    extents = zip(array.shape, array.strides, strict=True)
    span = size + sum((extent - 1) * stride for extent, stride in extents)
    operand = (array.buffer, array.offset, span, _CODES[array.dtype])
    return operand, (batch, strides[-2], strides[-1])


def _require_batch_stride(name: str, shape: Shape, strides: list[int]) -> int:
    """The stride from one matrix to the next; raises where there are several."""
    stride = _batch_stride(shape, strides)
    if stride is None:
        raise ShapeError(
            f"matmul: expected {name} with one batch stride, got shape {shape}", "copy it first"
        )
    return stride


def _batch_stride(shape: Shape, strides: Sequence[int]) -> int | None:
    """The single stride through these axes, or None where there are several."""
    pairs = [pair for pair in zip(shape, strides, strict=True) if pair[0] != 1]
    for (_, outer), (extent, inner) in itertools.pairwise(pairs):
        if outer != extent * inner:
            return None
    return pairs[-1][1] if pairs else 0
