"""Interoperability: arrays from Python values, NumPy, the buffer protocol and DLPack, and back.

`cuda_array_interface` has the other protocol of GPU memory.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay._native import dlpack_export, dlpack_import
from assay.errors import ArrayBufferError, DTypeError, ShapeError
from assay.runtime import cuda, cuda_array_interface, dtypes
from assay.runtime.array import Array
from assay.runtime.capabilities import DLPACK_CPU, DLPACK_CUDA
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, device
from assay.runtime.layout import Layout, row_major
from assay.runtime.transfer import astype, copy, store, to_device, values, widen_bfloat16

NumPyArray = npt.NDArray[Any]

LEGACY_STREAM: Final = 1
"""DLPack's handle of CUDA's legacy default stream."""


def asarray(
    obj: Any, dtype: DType | None, target: Device | None, copy_requested: bool | None
) -> Array:
    """An array of anything that holds numbers, sharing memory where possible."""
    if isinstance(obj, Array):
        return _from_array(obj, dtype, target, copy_requested)
    target_device = target or device()
    if not isinstance(obj, (bool, int, float, complex, list, tuple, np.ndarray, np.generic)):
        if hasattr(obj, "__dlpack__"):
            # One GPU may be several devices here: memory of the target's is taken on the target.
            there = _dlpack_device(obj) == _dlpack_identity(target_device)
            no_copy = False if copy_requested is False else None
            imported = from_dlpack(obj, target_device if there else None, no_copy)
            return _from_array(imported, dtype, target_device, copy_requested)
        if hasattr(obj, cuda_array_interface.NAME):
            imported = cuda_array_interface.borrow(obj, _gpu_of(target_device))
            return _from_array(imported, dtype, target_device, copy_requested)
        obj = np.asarray(memoryview(obj)) if _has_buffer(obj) else _numpy_array(obj)
    if isinstance(obj, np.ndarray):
        shared = _share(obj, target_device, copy_requested)
        if shared is not None:
            return _from_array(shared, dtype, target_device, copy_requested)
    if copy_requested is False:
        raise ArrayBufferError(
            f"asarray: expected memory that can be shared, got {type(obj).__name__}", "allow a copy"
        )
    host = _numpy_array(_to_numpy_values(obj))
    target_dtype = dtype or _dtype_of(host)
    if target_dtype.kind in ("int", "uint") and host.dtype.kind == "O":
        host = _from_objects(host, target_dtype)
    elif target_dtype.kind in ("int", "uint") and host.dtype.kind in "iu":
        if not isinstance(obj, np.ndarray):
            # NumPy arrays are converted as NumPy does, modulo the range.
            _require_range(host, target_dtype)
    elif host.dtype.kind == "c" and target_dtype.kind != "complex":
        raise DTypeError(f"asarray: expected values that fit {target_dtype}, got complex values")
    return store("asarray", target_device, host, target_dtype)


def _numpy_array(obj: Any) -> NumPyArray:
    try:
        return np.asarray(obj)
    except (ValueError, OverflowError) as error:
        # NumPy's sentence on ragged lists says which axes have equal lengths.
        raise ShapeError(
            f"asarray: expected nested sequences of equal lengths, got others: {error}"
        ) from None


def _gpu_of(target_device: Device) -> Device:
    """The GPU that holds memory of the CUDA array interface: the target, else the first."""
    if target_device.capabilities.dlpack_device_type == DLPACK_CUDA:
        return target_device
    return device(next(iter(cuda.names()), "cuda:0"))


def restore(device_name: str, dtype_name: str, stored: NumPyArray) -> Array:
    """An array from what pickle stored: elements as NumPy has them, bfloat16 as uint16."""
    dtype = dtypes.as_dtype(dtype_name, "unpickle")
    if not isinstance(stored, np.ndarray) or stored.dtype != dtype.storage:
        raise DTypeError(f"unpickle: expected elements of {dtype.storage}, got {stored!r:.80}")
    return store("unpickle", device(device_name), widen_bfloat16(dtype, stored), dtype)


def _from_objects(host: NumPyArray, dtype: DType) -> NumPyArray:
    """Python integers beyond NumPy's default range, as elements of a dtype."""
    try:
        return host.astype(dtype.storage)
    except (OverflowError, TypeError, ValueError) as error:
        raise DTypeError(
            f"asarray: expected values that fit {dtype}, got others: {error}"
        ) from error


def _require_range(host: NumPyArray, dtype: DType) -> None:
    limits = np.iinfo(dtype.storage)
    for value in (int(host.min()), int(host.max())) if host.size else ():
        if not limits.min <= value <= limits.max:
            raise DTypeError(
                f"asarray: expected values that fit {dtype}, got {value}",
                f"from {limits.min} to {limits.max}",
            )


def _dtype_of(host: NumPyArray) -> DType:
    if host.dtype.name not in dtypes.BY_NAME:
        raise DTypeError(
            f"asarray: expected numbers, got elements of type {host.dtype}",
            f"types are: {', '.join(dtypes.BY_NAME)}",
        )
    return dtypes.BY_NAME[host.dtype.name]


def _has_buffer(obj: object) -> bool:
    try:
        memoryview(obj).release()  # type: ignore[arg-type]
    except (TypeError, BufferError):
        return False
    return True


def _to_numpy_values(obj: Any) -> Any:
    """Nested lists with their arrays replaced by NumPy values."""
    if isinstance(obj, (list, tuple)):
        return [_to_numpy_values(entry) for entry in obj]
    return values(obj) if isinstance(obj, Array) else obj


def _from_array(
    array: Array, dtype: DType | None, target: Device | None, copy_requested: bool | None
) -> Array:
    target_device, target_dtype = target or array.device, dtype or array.dtype
    if target_device is array.device and target_dtype is array.dtype:
        return copy(array, "asarray") if copy_requested else array
    if copy_requested is False:
        raise ArrayBufferError(
            f"asarray: expected {target_dtype} on {target_device} without a copy, "
            f"got {array.dtype} on {array.device}",
            "allow a copy",
        )
    if target_device is not array.device:
        array = to_device(array, target_device)
    return array if target_dtype is array.dtype else astype(array, target_dtype, "asarray")


def _share(host: NumPyArray, target_device: Device, copy_requested: bool | None) -> Array | None:
    """An array over NumPy's memory, or None where the bytes must be copied or converted."""
    if copy_requested or not target_device.host_memory or host.dtype.name not in dtypes.BY_NAME:
        return None
    if not host.dtype.isnative:
        return None
    try:
        capsule = _capsule(host, {"max_version": (1, 0)})
    except BufferError:
        return None
    return _import_capsule(target_device, capsule)


def _capsule(obj: Any, options: dict[str, Any]) -> Any:
    try:
        return obj.__dlpack__(**options)
    except TypeError:
        # Producers of DLPack before 1.0 take no arguments.
        return obj.__dlpack__()


def _import_capsule(target_device: Device, capsule: Any) -> Array:
    buffer, offset, shape, steps, (code, bits) = dlpack_import(target_device._context, capsule)
    dtype = dtypes.from_dlpack_code(code, bits)
    extents = tuple(shape)
    empty = 0 in extents
    strides = (
        row_major(extents, dtype.itemsize)
        if empty
        else tuple(step * dtype.itemsize for step in steps)
    )
    return Array(target_device, buffer, dtype, Layout(extents, strides, 0 if empty else offset))


def from_dlpack(obj: Any, target: Device | None, copy_requested: bool | None) -> Array:
    """An array over another library's memory; a copy where necessary or requested."""
    if isinstance(obj, Array) and obj.device is (target or obj.device):
        return copy(obj, "from_dlpack") if copy_requested else obj.view(obj.layout)
    if not hasattr(obj, "__dlpack__"):
        raise DTypeError(
            f"from_dlpack: expected an object with __dlpack__, got {type(obj).__name__}"
        )
    target_device = target or _device_of(obj)
    shares = target_device.capabilities.shares_memory_by_dlpack
    if (
        shares
        and not target_device.host_memory
        and _dlpack_device(obj) == _dlpack_identity(target_device)
    ):
        # The producer makes our stream wait for the work that writes the elements.
        stream = target_device.current_stream()._native.handle
        capsule = _capsule(obj, {"max_version": (1, 0), "stream": stream})
        array = _import_capsule(target_device, capsule)
        return copy(array, "from_dlpack") if copy_requested else array
    if not target_device.host_memory:
        if copy_requested is False:
            raise ArrayBufferError(
                f"from_dlpack: expected memory of {target_device}, got another's"
            )
        return to_device(from_dlpack(obj, device("cpu"), None), target_device)
    options: dict[str, Any] = {"max_version": (1, 0)}
    if copy_requested is not None or _dlpack_device(obj)[0] != DLPACK_CPU:
        options |= {"dl_device": (DLPACK_CPU, 0), "copy": copy_requested}
    array = _import_capsule(target_device, _capsule(obj, options))
    return copy(array, "from_dlpack") if copy_requested and not array.buffer.writable else array


def _dlpack_device(obj: Any) -> tuple[int, int]:
    """DLPack's device type and ordinal of an object; the host for producers without them."""
    if not hasattr(obj, "__dlpack_device__"):
        return (DLPACK_CPU, 0)
    kind, number = obj.__dlpack_device__()
    return (int(kind), int(number))


def _dlpack_identity(target_device: Device) -> tuple[int, int]:
    """DLPack's device type and ordinal of one of our devices."""
    return (target_device.capabilities.dlpack_device_type, target_device.ordinal)


def _device_of(obj: Any) -> Device:
    """The one of our devices that holds an object's memory."""
    kind, number = _dlpack_device(obj)
    if kind == DLPACK_CUDA and f"cuda:{number}" in cuda.names():
        default = device()
        same = _dlpack_identity(default) == (kind, number)
        return default if same else device(f"cuda:{number}")
    return device("cpu") if kind == DLPACK_CPU else device()


def to_dlpack(
    array: Array,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy_requested: bool | None,
) -> Any:
    """A DLPack capsule of an array's memory, or of a copy of it."""
    own = array.__dlpack_device__()
    requested = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    shares = array.device.capabilities.shares_memory_by_dlpack
    on_device = shares and not array.device.host_memory and requested == own
    if not on_device and stream is not None and stream != -1:
        raise ArrayBufferError(
            f"__dlpack__: expected stream None on {array.device}, got {stream!r}"
        )
    if requested not in ((DLPACK_CPU, 0), own):
        raise ArrayBufferError(f"__dlpack__: expected device {own} or (1, 0), got {requested}")
    to_host = not array.device.host_memory and not on_device
    if to_host and copy_requested is False:
        raise ArrayBufferError(
            f"__dlpack__: expected memory of the host, got device {array.device}"
        )
    if to_host and requested == own:
        raise ArrayBufferError(
            f"__dlpack__: expected a device with a DLPack type, got {array.device}",
            "request dl_device=(1, 0), which copies to the host",
        )
    copied = bool(copy_requested) or to_host
    local = to_device(array, "cpu") if to_host else array
    source = copy(local, "__dlpack__") if copied else array
    versioned = max_version is not None and max_version[0] >= 1
    read_only = not source.buffer.writable
    if read_only and not versioned:
        raise ArrayBufferError(
            "__dlpack__: expected a consumer of DLPack 1, got an older one for read-only memory"
        )
    itemsize = source.dtype.itemsize
    if any(stride % itemsize for stride in source.strides):
        raise ShapeError(f"__dlpack__: expected strides in elements, got {source.strides} bytes")
    return dlpack_export(
        source.buffer,
        source.offset,
        source.shape,
        [stride // itemsize for stride in source.strides],
        (source.dtype.code, 8 * itemsize),
        device=requested,
        versioned=versioned,
        read_only=read_only,
        copied=copied,
        consumer=_consumer_stream(stream) if on_device else None,
    )


def _consumer_stream(stream: Any) -> int | None:
    """The handle of the consumer's stream; by default the legacy default stream."""
    if stream is None:
        return LEGACY_STREAM
    handle = int(stream)
    if handle == 0 or handle < -1:
        raise ArrayBufferError(
            f"__dlpack__: expected stream None, -1, 1, 2 or a handle, got {stream!r}",
            "0 is ambiguous, so the standard forbids it",
        )
    return None if handle == -1 else handle
