"""Arrays and the rest of the world: Python values, NumPy, the buffer protocol, DLPack, devices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay._native import dlpack_export, dlpack_import
from assay.errors import ArrayBufferError, DTypeError, ShapeError
from assay.runtime import cuda, dtypes, kernels, launching, rounding
from assay.runtime.array import DLPACK_CPU, DLPACK_CUDA, Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, device
from assay.runtime.layout import Layout, row_major

NumPyArray = npt.NDArray[Any]

LEGACY_STREAM: Final = 1
"""CUDA's handle of the stream that libraries use unless told otherwise."""


def values(array: Array) -> NumPyArray:
    """The elements' values on the host, bfloat16 as float32; perhaps a view."""
    return launching.widen_if(array.dtype, array.to_numpy())


def download(array: Array) -> NumPyArray:
    """A copy of the elements in the host's memory."""
    # The transfer engine knows the pool's memory and no other.
    ready = array.buffer.pooled and array.layout.is_contiguous(array.dtype.itemsize)
    packed = array if ready or array.size == 0 else copy(array, "download")
    out = np.empty(array.shape, array.dtype.storage)
    into = out.reshape(-1).view(np.uint8)
    packed.device._context.download("download", packed.buffer, packed.offset, into)
    return out


def copy(array: Array, operation: str = "copy") -> Array:
    """The same elements in fresh memory, in C order."""
    out = launching.empty(array.device, array.shape, array.dtype, operation)
    copy_into(out, array, operation)
    return out


def copy_into(out: Array, source: Array, operation: str) -> None:
    """Write `source`, stretched and converted to the type of `out`, into it."""
    alike = out.shape == source.shape and out.dtype is source.dtype and out.device is source.device
    itemsize = out.dtype.itemsize
    packed = out.layout.is_contiguous(itemsize) and source.layout.is_contiguous(itemsize)
    pooled = out.buffer.pooled and source.buffer.pooled
    if out.size == 0:
        return
    launching.require_writable(out, operation)
    if alike and packed and pooled and out.buffer is not source.buffer:
        out.device._context.copy(
            operation,
            source.buffer,
            source.offset,
            out.buffer,
            out.offset,
            out.nbytes,
            out.device.current_stream()._native,
        )
        return
    launching.one_device(operation, [out, source])
    if kernels.copy_into(operation, out, source):
        return
    twice = source.dtype is dtypes.float64 and out.dtype is dtypes.bfloat16
    launching.launch(operation, _overwrite_once if twice else _overwrite, [source], [out])


def _overwrite(given: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
    # NumPy's own assignment reads what it has just written where one-dimensional views of the
    # same memory cross at different strides, as a row and a column do.
    crossing = np.may_share_memory(given, target)
    np.copyto(target, given.copy() if crossing else given, casting="unsafe")


def _overwrite_once(given: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
    """The same where what is written is rounded again, to bfloat16."""
    _overwrite(rounding.to_odd(given), target)


def to_device(array: Array, target: Device | str) -> Array:
    """The array on a device."""
    there = device(target)
    if there is array.device:
        return array
    return _with_type(launching.empty(there, array.shape, array.dtype, "to_device"), array)


def _with_type(out: Array, array: Array) -> Array:
    launching.write("to_device", out, values(array))
    return out


def asarray(
    obj: Any, dtype: DType | None, target: Device | None, copy_wanted: bool | None
) -> Array:
    """An array of anything that holds numbers, sharing memory where that is possible."""
    if isinstance(obj, Array):
        return _from_array(obj, dtype, target, copy_wanted)
    there = target or device()
    if not isinstance(obj, (bool, int, float, complex, list, tuple, np.ndarray, np.generic)):
        if hasattr(obj, "__dlpack__"):
            taken = from_dlpack(obj, None, False if copy_wanted is False else None)
            return _from_array(taken, dtype, there, copy_wanted)
        obj = np.asarray(memoryview(obj)) if _has_buffer(obj) else np.asarray(obj)
    if isinstance(obj, np.ndarray):
        shared = _share(obj, there, copy_wanted)
        if shared is not None:
            return _from_array(shared, dtype, there, copy_wanted)
    if copy_wanted is False:
        raise ArrayBufferError(
            f"asarray: expected memory that can be shared, got {type(obj).__name__}",
            "allow a copy",
        )
    found = np.asarray(_plain(obj))
    kept = dtype or _found_type(found)
    if kept.kind in ("int", "uint") and found.dtype.kind == "O":
        found = _wide_integers(found, kept)
    elif found.dtype.kind == "c" and kept.kind != "complex":
        raise DTypeError(f"asarray: expected values that fit {kept}, got complex values")
    return launching.store("asarray", there, found, kept)


def _wide_integers(found: NumPyArray, kept: DType) -> NumPyArray:
    try:
        return found.astype(kept.storage)
    except (OverflowError, TypeError, ValueError) as error:
        raise DTypeError(
            f"asarray: expected values that fit {kept}, got others: {error}"
        ) from error


def _found_type(found: NumPyArray) -> DType:
    if found.dtype.name not in dtypes.BY_NAME:
        raise DTypeError(
            f"asarray: expected numbers, got elements of type {found.dtype}",
            f"types are: {', '.join(dtypes.BY_NAME)}",
        )
    return dtypes.BY_NAME[found.dtype.name]


def _has_buffer(obj: object) -> bool:
    try:
        memoryview(obj).release()  # type: ignore[arg-type]
    except (TypeError, BufferError):
        return False
    return True


def _plain(obj: Any) -> Any:
    """Nested lists with the arrays in them as NumPy values."""
    if isinstance(obj, (list, tuple)):
        return [_plain(entry) for entry in obj]
    return values(obj) if isinstance(obj, Array) else obj


def _from_array(
    array: Array, dtype: DType | None, target: Device | None, copy_wanted: bool | None
) -> Array:
    there, kept = target or array.device, dtype or array.dtype
    if there is array.device and kept is array.dtype:
        return copy(array, "asarray") if copy_wanted else array
    if copy_wanted is False:
        raise ArrayBufferError(
            f"asarray: expected {kept} on {there} without a copy, got {array.dtype} on {array.device}",
            "allow a copy",
        )
    if there is not array.device:
        array = to_device(array, there)
    return array if kept is array.dtype else astype(array, kept, "asarray")


def astype(array: Array, dtype: DType, operation: str = "astype") -> Array:
    """The values converted to another type, in fresh memory."""
    if array.dtype.kind == "complex" and dtype.kind not in ("complex", "bool"):
        raise DTypeError(
            f"{operation}: expected a complex type for complex values, got {dtype}",
            "take xp.real first",
        )
    out = launching.empty(array.device, array.shape, dtype, operation)
    copy_into(out, array, operation)
    return out


def _share(found: NumPyArray, there: Device, copy_wanted: bool | None) -> Array | None:
    """An array over NumPy's memory, or None where the bytes must be moved or converted."""
    if copy_wanted or not there.host_memory or found.dtype.name not in dtypes.BY_NAME:
        return None
    if not found.dtype.isnative:
        return None
    try:
        capsule = _capsule(found, {"max_version": (1, 0)})
    except BufferError:
        return None
    return _take_over(there, capsule)


def _capsule(obj: Any, options: dict[str, Any]) -> Any:
    try:
        return obj.__dlpack__(**options)
    except TypeError:
        # Producers of DLPack before 1.0 take no arguments.
        return obj.__dlpack__()


def _take_over(there: Device, capsule: Any) -> Array:
    buffer, offset, shape, steps, (code, bits) = dlpack_import(there._context, capsule)
    dtype = dtypes.from_dlpack_code(code, bits)
    extents = tuple(shape)
    empty = 0 in extents
    strides = (
        row_major(extents, dtype.itemsize)
        if empty
        else tuple(step * dtype.itemsize for step in steps)
    )
    return Array(there, buffer, dtype, Layout(extents, strides, 0 if empty else offset))


def from_dlpack(obj: Any, target: Device | None, copy_wanted: bool | None) -> Array:
    """An array over another library's memory; a copy where it must be, or is asked for."""
    if isinstance(obj, Array) and obj.device is (target or obj.device):
        return copy(obj, "from_dlpack") if copy_wanted else obj.view(obj.layout)
    if not hasattr(obj, "__dlpack__"):
        raise DTypeError(
            f"from_dlpack: expected an object with __dlpack__, got {type(obj).__name__}"
        )
    there = target or _device_of(obj)
    if there.kind == "cuda" and _dlpack_device(obj) == (DLPACK_CUDA, there.ordinal):
        # The producer has our stream wait for whatever makes the elements.
        stream = there.current_stream()._native.handle
        capsule = _capsule(obj, {"max_version": (1, 0), "stream": stream})
        array = _take_over(there, capsule)
        return copy(array, "from_dlpack") if copy_wanted else array
    if not there.host_memory:
        if copy_wanted is False:
            raise ArrayBufferError(f"from_dlpack: expected memory of {there}, got another's")
        return to_device(from_dlpack(obj, device("cpu"), None), there)
    options: dict[str, Any] = {"max_version": (1, 0)}
    if copy_wanted is not None or _dlpack_device(obj)[0] != DLPACK_CPU:
        options |= {"dl_device": (DLPACK_CPU, 0), "copy": copy_wanted}
    array = _take_over(there, _capsule(obj, options))
    return copy(array, "from_dlpack") if copy_wanted and not array.buffer.writable else array


def _dlpack_device(obj: Any) -> tuple[int, int]:
    """DLPack's numbers for where an object's memory is; producers without them have the host's."""
    if not hasattr(obj, "__dlpack_device__"):
        return (DLPACK_CPU, 0)
    kind, number = obj.__dlpack_device__()
    return (int(kind), int(number))


def _device_of(obj: Any) -> Device:
    """Where an object's memory is, among our devices."""
    kind, number = _dlpack_device(obj)
    if kind == DLPACK_CUDA and f"cuda:{number}" in cuda.names():
        default = device()
        same = default.kind == "cuda" and default.ordinal == number
        return default if same else device(f"cuda:{number}")
    return device("cpu") if kind == DLPACK_CPU else device()


def to_dlpack(
    array: Array,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy_wanted: bool | None,
) -> Any:
    """A DLPack capsule of an array's memory, or of a copy of it."""
    here = array.__dlpack_device__()
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    stays = array.device.kind == "cuda" and wanted == here
    if not stays and stream is not None and stream != -1:
        raise ArrayBufferError(
            f"__dlpack__: expected stream None on {array.device}, got {stream!r}"
        )
    if wanted not in ((DLPACK_CPU, 0), here):
        raise ArrayBufferError(f"__dlpack__: expected device {here} or (1, 0), got {wanted}")
    leaves = not array.device.host_memory and not stays
    if leaves and copy_wanted is False:
        raise ArrayBufferError(
            f"__dlpack__: expected memory of the host, got device {array.device}"
        )
    if leaves and wanted == here:
        raise ArrayBufferError(
            f"__dlpack__: expected a device that others know, got {array.device}",
            "ask for dl_device=(1, 0), which copies to the host",
        )
    copied = bool(copy_wanted) or leaves
    there = to_device(array, "cpu") if leaves else array
    source = copy(there, "__dlpack__") if copied else array
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
        device=wanted,
        versioned=versioned,
        read_only=read_only,
        copied=copied,
        consumer=_consumer(stream) if stays else None,
    )


def _consumer(stream: Any) -> int | None:
    """The handle of the stream that a consumer works on: by default the one all share."""
    if stream is None:
        return LEGACY_STREAM
    handle = int(stream)
    if handle == 0 or handle < -1:
        raise ArrayBufferError(
            f"__dlpack__: expected stream None, -1, 1, 2 or a handle, got {stream!r}",
            "0 could mean either of two streams, so the standard leaves it out",
        )
    return None if handle == -1 else handle
