"""Running NumPy's loops as operations of a device: allocated, queued and recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError, DeviceError, DTypeError, FreedError, ShapeError
from assay.lazy_import import LazyModule
from assay.runtime.array import Array, look_at
from assay.runtime.dtypes import BY_NAME, DType, bfloat16
from assay.runtime.hardware import Device
from assay.runtime.layout import LARGEST, Shape, fresh

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from assay.runtime import kernels, rounding

    NumPyArray = npt.NDArray[Any]
else:
    np = LazyModule("numpy", globals(), "np")
    kernels = LazyModule("assay.runtime.kernels", globals(), "kernels")
    rounding = LazyModule("assay.runtime.rounding", globals(), "rounding")

Kernel = Callable[..., Any]


def empty(device: Device, shape: Shape, dtype: DType, operation: str) -> Array:
    """Fresh memory for an array in C order."""
    layout, nbytes, _ = fresh(shape, dtype.itemsize)
    if nbytes > LARGEST or max(layout.strides, default=0) > LARGEST:
        raise ShapeError(f"{operation}: expected at most 2**62 bytes, got shape {shape} of {dtype}")
    return Array(device, device.allocate(nbytes), dtype, layout)


def zeros(device: Device, shape: Shape, dtype: DType, operation: str) -> Array:
    """An array of zero bytes."""
    out = empty(device, shape, dtype, operation)
    if out.size:
        stream = device.current_stream()._native
        device._context.fill(operation, out.buffer, 0, 0, out.nbytes, stream)
    return out


def one_device(operation: str, arrays: Sequence[Array]) -> Device:
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
    """Refuse memory borrowed for reading, and views in which elements share a place."""
    if not array.buffer.writable:
        raise DeviceError(
            f"{operation}: expected memory that may be written, got memory borrowed for reading",
            "copy the array first",
        )
    if 0 in array.strides and any(
        stride == 0 and extent > 1
        for stride, extent in zip(array.strides, array.shape, strict=True)
    ):
        raise ShapeError(
            f"{operation}: expected a place for every element, got a broadcast view of shape "
            f"{array.shape}",
            "copy the array first",
        )


def launch(
    operation: str,
    kernel: Kernel,
    reads: Sequence[Array],
    writes: Sequence[Array],
    *,
    flops: float = 0.0,
) -> None:
    """Run `kernel` over NumPy views of what it reads and then of what it writes.

    bfloat16 arrays are passed as float32, and what is written to them is rounded afterward.
    """
    arrays = (*reads, *writes)
    device = one_device(operation, arrays)
    for array in arrays:
        if array.buffer.freed:
            raise FreedError(f"{operation}: expected a live buffer, got one that was freed")
    for array in writes:
        require_writable(array, operation)
    if device.has_array_kernels:
        # The loop goes over copies, and only the pool's memory can be copied to the host.
        reads = [kernels.owned(operation, array) for array in reads]
        arrays = (*reads, *writes)
        if any(not array.buffer.pooled for array in writes):
            raise DeviceError(
                f"{operation}: expected a result in the device's own memory, got borrowed memory",
                "copy the array first",
            )
    body = _body(operation, kernel, arrays, len(reads), device)
    device._context.launch(
        operation,
        body,
        [array.buffer for array in reads],
        [array.buffer for array in writes],
        device.current_stream()._native,
        bytes=sum(array.nbytes for array in arrays),
        flops=flops,
    )


def _body(
    operation: str, kernel: Kernel, arrays: Sequence[Array], reads: int, device: Device
) -> Callable[..., None]:
    # A function that waits for its turn holds no arrays: the order of streams keeps their memory,
    # and a device that nobody has any more can go.
    dtypes = [array.dtype for array in arrays]
    rounded = bfloat16 in dtypes

    def run(views: list[NumPyArray]) -> None:
        with np.errstate(all="ignore"):
            if rounded:
                _run_rounded(kernel, dtypes, views, reads)
            else:
                kernel(*views)

    if device.host_memory:
        views = [array.host() for array in arrays]
        return lambda: _named(operation, run, views)
    layouts = [array.layout for array in arrays]
    return lambda copies: _named(operation, run, list(map(look_at, copies, dtypes, layouts)))


def _run_rounded(
    kernel: Kernel, dtypes: Sequence[DType], views: list[NumPyArray], reads: int
) -> None:
    widened = [
        rounding.widen(view) if dtype is bfloat16 else view
        for dtype, view in zip(dtypes, views, strict=True)
    ]
    kernel(*widened)
    for dtype, view, wide in list(zip(dtypes, views, widened, strict=True))[reads:]:
        if dtype is bfloat16:
            view[...] = rounding.narrow(wide)


def _named(
    operation: str, run: Callable[[list[NumPyArray]], None], views: list[NumPyArray]
) -> None:
    """Have what NumPy raises name the operation."""
    try:
        run(views)
    except AssayError:
        raise
    except (TypeError, OverflowError) as error:
        raise DTypeError(f"{operation}: {error}") from error
    except ValueError as error:
        raise ShapeError(f"{operation}: {error}") from error


def compute(
    operation: str,
    kernel: Kernel,
    reads: Sequence[Array],
    shape: Shape,
    dtype: DType,
    *,
    flops: float = 0.0,
) -> Array:
    """A fresh array that one operation fills in; `kernel` gets its view last."""
    out = empty(one_device(operation, reads), shape, dtype, operation)
    launch(operation, kernel, reads, [out], flops=flops)
    return out


def collect(operation: str, function: Kernel, reads: Sequence[Array]) -> Any:
    """What `function` returns for NumPy views of the arrays, run as one operation.

    For results whose shapes depend on values; the host waits for them.
    """
    found: list[Any] = []
    launch(operation, lambda *views: found.append(function(*views)), reads, [])
    if not reads[0].device.host_memory:
        reads[0].device.current_stream().synchronize()
    return found[0]


def store(operation: str, device: Device, values: NumPyArray, dtype: DType | None = None) -> Array:
    """A fresh array with these values, which are in the host's memory."""
    kept = dtype or BY_NAME[values.dtype.name]
    out = empty(device, values.shape, kept, operation)
    write(operation, out, values)
    return out


def write(operation: str, out: Array, values: NumPyArray) -> None:
    """Put host values, broadcast and converted, into an array."""
    if out.size == 0:
        return
    if out.device.host_memory:
        if out.dtype is bfloat16 and values.dtype == np.float64:
            # What is written is rounded again.
            values = rounding.to_odd(values)
        launch(operation, lambda view: np.copyto(view, values, casting="unsafe"), [], [out])
        return
    if values.ndim == 0 and kernels.fill(operation, out, values):
        return
    # Narrowed here rather than there: the bytes that travel are the device's own.
    stretched = np.broadcast_to(values, out.shape)
    if out.dtype is bfloat16:
        stored: NumPyArray = rounding.narrow(np.ascontiguousarray(stretched))
    else:
        with np.errstate(all="ignore"):
            stored = stretched.astype(out.dtype.storage)
    if out.layout.is_contiguous(out.dtype.itemsize):
        packed = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
        out.device._context.upload(operation, packed, out.buffer, out.offset)
    elif out.device.has_array_kernels and out.ndim <= kernels.MOST_AXES:
        placed = empty(out.device, out.shape, out.dtype, operation)
        write(operation, placed, widen_if(out.dtype, stored))
        kernels.copy_into(operation, out, placed)
    else:
        wide = widen_if(out.dtype, stored)
        launch(operation, lambda view: np.copyto(view, wide), [], [out])


def widen_if(dtype: DType, stored: NumPyArray) -> NumPyArray:
    """Stored elements as values: bfloat16 becomes float32, the others are values already."""
    return rounding.widen(stored) if dtype is bfloat16 else stored
