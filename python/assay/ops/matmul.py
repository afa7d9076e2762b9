"""Batched matrix multiplication by the device's GEMM kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from assay.errors import ShapeError
from assay.lazy_import import LazyModule
from assay.ops import counting
from assay.ops.operands import DENSE, check, result
from assay.runtime import dtypes
from assay.runtime.array import Array

if TYPE_CHECKING:
    from assay.runtime import matmul
else:
    matmul = LazyModule("assay.runtime.matmul", globals(), "matmul")


def batched_matmul(
    a: Array, b: Array, out: Array | None = None, *, label: str | None = None
) -> Array:
    """Batched GEMM over equal leading axes, in single precision.

    On a GPU the result has the dtype of `a` where `out` has it.
    """
    check("batched_matmul", "a", a, None, DENSE)
    if a.ndim < 2:
        raise ShapeError(f"batched_matmul: expected a with at least 2 axes, got {tuple(a.shape)}")
    check("batched_matmul", "b", b, (*a.shape[:-2], a.shape[-1], None), DENSE)
    *batch, m, k = a.shape
    n = b.shape[-1]
    supported = a.dtype in a.device.capabilities.activation_dtypes
    keeps_dtype = supported and out is not None and out.dtype is a.dtype
    dtype = a.dtype if keeps_dtype else dtypes.float32
    out = result("batched_matmul", a.device, out, (*batch, m, n), dtype)
    if out.size == 0 or k == 0:
        if out.size:
            out[...] = 0.0
        return out
    each = counting.gemm(m, n, k, b.dtype.itemsize, a.dtype.itemsize)
    count = math.prod(batch)
    name = label or "batched_matmul"
    matmul.launch_gemm(a, b, out, name, count * each.bytes, count * each.flops)
    return out
