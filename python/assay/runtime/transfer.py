"""Copies of array elements: host to device and back, between devices, layouts and dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.errors import DTypeError
from assay.lazy_import import LazyModule, np
from assay.runtime import dtypes, numpy_kernels
from assay.runtime.allocation import common_device, empty, require_writable
from assay.runtime.array import Array
from assay.runtime.dtypes import BY_NAME, DType, bfloat16
from assay.runtime.hardware import Device, device

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.runtime import elementwise_kernels, rounding

    NumPyArray = npt.NDArray[Any]
else:
    elementwise_kernels = LazyModule(
        "assay.runtime.elementwise_kernels", globals(), "elementwise_kernels"
    )
    rounding = LazyModule("assay.runtime.rounding", globals(), "rounding")


def store(operation: str, device: Device, values: NumPyArray, dtype: DType | None = None) -> Array:
    """A new array with these host values."""
    out = empty(device, values.shape, dtype or BY_NAME[values.dtype.name], operation)
    write(operation, out, values)
    return out


def write(operation: str, out: Array, values: NumPyArray) -> None:
    """Write host values, broadcast and converted, to an array."""
    if out.size == 0:
        return
    if out.device.host_memory:
        if out.dtype is bfloat16 and values.dtype == np.float64:
            # The write rounds a second time.
            values = rounding.to_odd(values)
        numpy_kernels.launch(
            operation, lambda view: np.copyto(view, values, casting="unsafe"), [], [out]
        )
        return
    if values.ndim == 0 and elementwise_kernels.fill(operation, out, values):
        return
    # Converted on the host, so that the transfer moves the device's own bytes.
    broadcast = np.broadcast_to(values, out.shape)
    if out.dtype is bfloat16:
        stored: NumPyArray = rounding.narrow(np.ascontiguousarray(broadcast))
    else:
        with np.errstate(all="ignore"):
            stored = broadcast.astype(out.dtype.storage)
    if out.layout.is_contiguous(out.dtype.itemsize):
        flat = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
        out.device.upload(operation, flat, out.buffer, out.offset)
    elif out.device.capabilities.has_array_kernels and out.ndim <= elementwise_kernels.MAX_NDIM:
        staged = empty(out.device, out.shape, out.dtype, operation)
        write(operation, staged, widen_bfloat16(out.dtype, stored))
        elementwise_kernels.copy_into(operation, out, staged)
    else:
        wide = widen_bfloat16(out.dtype, stored)
        numpy_kernels.launch(operation, lambda view: np.copyto(view, wide), [], [out])


def widen_bfloat16(dtype: DType, stored: NumPyArray) -> NumPyArray:
    """Stored elements as values: bfloat16 becomes float32, other types stay."""
    return rounding.widen(stored) if dtype is bfloat16 else stored


def to_numpy(array: Array) -> NumPyArray:
    """The stored elements on the host: a view of host memory, else a copy."""
    if array.device.host_memory:
        array.buffer.synchronize()
        return array.host()
    return download(array)


def values(array: Array) -> NumPyArray:
    """The elements' values on the host, bfloat16 as float32; perhaps a view."""
    return widen_bfloat16(array.dtype, to_numpy(array))


def download(array: Array) -> NumPyArray:
    """A copy of the elements in host memory."""
    # The transfer engine copies pool memory only.
    ready = array.buffer.pooled and array.layout.is_contiguous(array.dtype.itemsize)
    source = array if ready or array.size == 0 else copy(array, "download")
    out = np.empty(array.shape, array.dtype.storage)
    source.device.download("download", source.buffer, source.offset, out.reshape(-1).view(np.uint8))
    return out


def copy(array: Array, operation: str = "copy") -> Array:
    """The same elements in a new array, in C order."""
    out = empty(array.device, array.shape, array.dtype, operation)
    copy_into(out, array, operation)
    return out


def copy_into(out: Array, source: Array, operation: str) -> None:
    """Write `source`, broadcast and converted to the dtype of `out`, to it."""
    same = out.shape == source.shape and out.dtype is source.dtype and out.device is source.device
    itemsize = out.dtype.itemsize
    contiguous = out.layout.is_contiguous(itemsize) and source.layout.is_contiguous(itemsize)
    pooled = out.buffer.pooled and source.buffer.pooled
    if out.size == 0:
        return
    require_writable(out, operation)
    if same and contiguous and pooled and out.buffer is not source.buffer:
        out.device.copy(operation, source.buffer, source.offset, out.buffer, out.offset, out.nbytes)
        return
    common_device(operation, [out, source])
    if elementwise_kernels.copy_into(operation, out, source):
        return
    rounds_twice = source.dtype is dtypes.float64 and out.dtype is bfloat16
    kernel = _overwrite_rounding_to_odd if rounds_twice else _overwrite
    numpy_kernels.launch(operation, kernel, [source], [out])


def _overwrite(source: NumPyArray, target: NumPyArray) -> None:
    # NumPy's own assignment reads elements it has just written where one-dimensional views of the
    # same memory overlap at different strides, as a row and a column do.
    overlapping = np.may_share_memory(source, target)
    np.copyto(target, source.copy() if overlapping else source, casting="unsafe")


def _overwrite_rounding_to_odd(source: NumPyArray, target: NumPyArray) -> None:
    """The same where the result is rounded a second time, to bfloat16."""
    _overwrite(rounding.to_odd(source), target)


def to_device(array: Array, target: Device | str) -> Array:
    """The array on a device."""
    destination = device(target)
    if destination is array.device:
        return array
    out = empty(destination, array.shape, array.dtype, "to_device")
    write("to_device", out, values(array))
    return out


def astype(array: Array, dtype: DType, operation: str = "astype") -> Array:
    """The values converted to another dtype, in a new array."""
    if array.dtype.kind == "complex" and dtype.kind not in ("complex", "bool"):
        raise DTypeError(
            f"{operation}: expected a complex type for complex values, got {dtype}",
            "take xp.real first",
        )
    out = empty(array.device, array.shape, dtype, operation)
    copy_into(out, array, operation)
    return out
