"""Uninitialized and zeroed arrays, and checks of where arrays are and whether they are writable."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import DeviceError, ShapeError
from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.runtime.layout import MAX_BYTES, Shape, contiguous_layout


def empty(device: Device, shape: Shape, dtype: DType, operation: str) -> Array:
    """An uninitialized array in C order."""
    layout, nbytes, _ = contiguous_layout(shape, dtype.itemsize)
    if nbytes > MAX_BYTES or max(layout.strides, default=0) > MAX_BYTES:
        raise ShapeError(f"{operation}: expected at most 2**62 bytes, got shape {shape} of {dtype}")
    return Array(device, device.allocate(nbytes), dtype, layout)


def zeros(device: Device, shape: Shape, dtype: DType, operation: str) -> Array:
    """An array of zero bytes."""
    out = empty(device, shape, dtype, operation)
    if out.size:
        device.fill(operation, out.buffer, 0, 0, out.nbytes)
    return out


def common_device(operation: str, arrays: Sequence[Array]) -> Device:
    """The device that all arrays are on."""
    device = arrays[0].device
    for other in arrays[1:]:
        if other.device is not device:
            raise DeviceError(
                f"{operation}: expected arrays on one device, got {device} and {other.device}",
                "move one of them with to_device",
            )
    return device


def require_writable(array: Array, operation: str) -> None:
    """Raise for memory borrowed read-only, and for broadcast views, whose elements alias."""
    if not array.buffer.writable:
        raise DeviceError(
            f"{operation}: expected writable memory, got memory borrowed read-only",
            "copy the array first",
        )
    if 0 in array.strides and any(
        stride == 0 and extent > 1
        for stride, extent in zip(array.strides, array.shape, strict=True)
    ):
        raise ShapeError(
            f"{operation}: expected distinct memory for every element, got a broadcast view of "
            f"shape {array.shape}",
            "copy the array first",
        )
