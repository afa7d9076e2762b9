"""NumPy functions as kernels: launched on a stream, ordered and recorded like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from assay.errors import AssayError, DeviceError, DTypeError, FreedError, ShapeError
from assay.lazy_import import LazyModule, np
from assay.runtime.allocation import common_device, empty, require_writable
from assay.runtime.array import Array, numpy_view
from assay.runtime.dtypes import DType, bfloat16
from assay.runtime.hardware import Device
from assay.runtime.layout import Shape

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.runtime import elementwise_kernels, rounding

    NumPyArray = npt.NDArray[Any]
else:
    elementwise_kernels = LazyModule(
        "assay.runtime.elementwise_kernels", globals(), "elementwise_kernels"
    )
    rounding = LazyModule("assay.runtime.rounding", globals(), "rounding")

Kernel = Callable[..., Any]


def launch(
    operation: str,
    kernel: Kernel,
    reads: Sequence[Array],
    writes: Sequence[Array],
    *,
    flops: float = 0.0,
) -> None:
    """Launch `kernel` over NumPy views of the arrays it reads, then of those it writes.

    bfloat16 arrays are passed as float32; results are rounded back afterward.
    """
    arrays = (*reads, *writes)
    device = common_device(operation, arrays)
    for array in arrays:
        if array.buffer.freed:
            raise FreedError(f"{operation}: expected a live buffer, got one that was freed")
    for array in writes:
        require_writable(array, operation)
    if device.capabilities.has_array_kernels:
        # The kernel runs over host copies, and only pool memory can be copied to the host.
        reads = [elementwise_kernels.pooled(operation, array) for array in reads]
        arrays = (*reads, *writes)
        if any(not array.buffer.pooled for array in writes):
            raise DeviceError(
                f"{operation}: expected a result in the device's own memory, got borrowed memory",
                "copy the array first",
            )
    device.launch(
        operation,
        _host_function(operation, kernel, arrays, len(reads), device),
        [array.buffer for array in reads],
        [array.buffer for array in writes],
        bytes=sum(array.nbytes for array in arrays),
        flops=flops,
    )


def _host_function(
    operation: str, kernel: Kernel, arrays: Sequence[Array], reads: int, device: Device
) -> Callable[..., None]:
    # A queued function must not hold arrays: stream order keeps their memory alive, and a device
    # without other references must stay collectable.
    dtypes = [array.dtype for array in arrays]
    has_bfloat16 = bfloat16 in dtypes

    def run(views: list[NumPyArray]) -> None:
        with np.errstate(all="ignore"):
            if has_bfloat16:
                _run_in_float32(kernel, dtypes, views, reads)
            else:
                kernel(*views)

    if device.host_memory:
        views = [array.host() for array in arrays]
        return lambda: _translate_errors(operation, run, views)
    layouts = [array.layout for array in arrays]
    return lambda copies: _translate_errors(
        operation, run, list(map(numpy_view, copies, dtypes, layouts))
    )


def _run_in_float32(
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


def _translate_errors(
    operation: str, run: Callable[[list[NumPyArray]], None], views: list[NumPyArray]
) -> None:
    """Run, and re-raise NumPy's errors as ours, with the operation's name."""
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
    """A new array written by one launch; `kernel` gets its view last."""
    out = empty(common_device(operation, reads), shape, dtype, operation)
    launch(operation, kernel, reads, [out], flops=flops)
    return out


def collect(operation: str, function: Kernel, reads: Sequence[Array]) -> Any:
    """The return value of `function` over NumPy views of the arrays, run as one launch.

    For results whose shapes depend on values; the host synchronizes with the stream.
    """
    returned: list[Any] = []
    launch(operation, lambda *views: returned.append(function(*views)), reads, [])
    if not reads[0].device.host_memory:
        reads[0].device.current_stream().synchronize()
    return returned[0]
