"""Fourier transforms of rows by kernels of the device."""

from __future__ import annotations

import math

import assay._native as native
from assay._native import FORMATS
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.runtime.layout import row_major


def has_kernels(device: Device) -> bool:
    """Whether transforms are kernels of the device; elsewhere they run in NumPy on the host."""
    return device.host_memory or device.capabilities.has_array_kernels


def transform(operation: str, x: Array, length: int, scale: float) -> Array:
    """Transform the rows along the last axis of `x`, in single precision, contiguous and in pool memory.

    `operation` is fft, ifft, rfft or irfft without a norm; `length` is that of the complex rows, or of
    the real ones. FLOPs are counted as is the custom for the algorithm, 5 n log2(n), half of it where one
    side is real (Frigo and Johnson 2005).
    """
    lead = x.shape[:-1]
    if operation == "rfft":
        out = allocation.empty(x.device, (*lead, length // 2 + 1), dtypes.complex64, operation)
    elif operation == "irfft":
        out = allocation.empty(x.device, (*lead, length), dtypes.float32, operation)
    else:
        out = allocation.empty(x.device, (*lead, length), dtypes.complex64, operation)
    rows = math.prod(lead)
    if rows == 0:
        return out
    flops = rows * 5.0 * length * math.log2(max(length, 1))
    x.device.operate(
        "fourier",
        [(array.buffer, array.offset, array.nbytes, FORMATS["f32"]) for array in (x, out)],
        (rows, length, native.FOURIER_KINDS[operation], float(scale)),
        label=operation,
        bytes=x.nbytes + out.nbytes,
        flops=flops / 2 if operation in ("rfft", "irfft") else flops,
    )
    return out


def is_operand(x: Array) -> bool:
    """Whether the kernels can read the array where it is."""
    return x.buffer.pooled and x.strides == row_major(x.shape, x.dtype.itemsize)
