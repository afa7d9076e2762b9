"""Arrays as operands of native operations: checks, descriptors and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay._native import FORMATS, OPERATIONS, Buffer
from assay.errors import DeviceError, DTypeError, ShapeError
from assay.ops.counting import Count
from assay.runtime import allocation, dtypes, layout as layouts
from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.runtime.layout import Shape

Operand = tuple[Buffer, int, int, int]
"""Buffer, byte offset, bytes, format code."""

CODES: Final = {
    dtypes.float32: FORMATS["f32"],
    dtypes.float16: FORMATS["f16"],
    dtypes.bfloat16: FORMATS["bf16"],
    dtypes.int32: FORMATS["i32"],
    dtypes.int64: FORMATS["i64"],
    dtypes.uint8: FORMATS["u8"],
    dtypes.int8: FORMATS["i8"],
    dtypes.bool_: FORMATS["u8"],
}
"""Format codes of the dtypes that operations take."""

DENSE: Final = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
F32: Final = (dtypes.float32,)
I32: Final = (dtypes.int32,)

RESULTS: Final = frozenset({"out", "q_out", "tokens"})
"""The names of result operands."""

PURE: Final = frozenset(
    {
        *("linear", "embedding", "rms_norm", "layer_norm", "swiglu", "activate", "softmax"),
        *("rope", "attention", "gather_rows", "quantize"),
        *("convolution", "transposed_convolution", "group_norm", "activate_channels"),
        *("channel_projection", "triangle_update", "transition", "gated_attention"),
        *("outer_product_mean",),
    }
)
"""Operations that write nothing but results: they read borrowed memory, such as NumPy's, as a copy."""


def check(
    operation: str,
    name: str,
    array: object,
    shape: Sequence[int | None] | None,
    types: Sequence[DType] | None = None,
) -> Array:
    """Check that an argument is an array of this shape, where None is any extent, and dtype.

    Without a shape, any is accepted; without types, the device's activation dtypes are accepted.
    """
    if not isinstance(array, Array):
        raise DTypeError(
            f"{operation}: expected {name} as an array, got {type(array).__name__}",
            "make one with assay.xp.asarray",
        )
    if types is None:
        types = array.device.capabilities.activation_dtypes
    if array.dtype not in types:
        expected = " or ".join(dtype.name for dtype in types)
        raise DTypeError(
            f"{operation}: expected {name} of {expected}, got {array.dtype}",
            f"convert it with assay.xp.astype(x, assay.xp.{types[0].name})",
        )
    if shape is None:
        return array
    fits = len(array.shape) == len(shape) and all(
        required is None or required == extent
        for required, extent in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = ", ".join("any" if extent is None else str(extent) for extent in shape)
        raise ShapeError(
            f"{operation}: expected {name} of shape ({expected}), got {tuple(array.shape)}"
        )
    return array


def check_given(
    operation: str,
    name: str,
    array: object,
    shape: Sequence[int | None],
    types: Sequence[DType] | None = None,
) -> None:
    """Check an argument that may be None."""
    if array is not None:
        check(operation, name, array, shape, types)


def operand(operation: str, name: str, array: Array) -> Operand:
    """The array as an operand; it must be contiguous and in pool memory."""
    if not array.layout.is_contiguous(array.dtype.itemsize):
        raise ShapeError(
            f"{operation}: expected {name} to be C-contiguous, got strides {array.strides} "
            f"of shape {tuple(array.shape)}",
            "copy it with assay.xp.asarray(x, copy=True)",
        )
    if not array.buffer.pooled:
        raise DeviceError(
            f"{operation}: expected {name} in the device's own memory, got borrowed memory",
            "copy it with assay.xp.asarray(x, copy=True)",
        )
    return (array.buffer, array.offset, array.nbytes, CODES[array.dtype])


def reshaped(operation: str, name: str, array: Array, shape: Shape) -> Array:
    """A view of another shape; the array must be contiguous."""
    layout = layouts.reshape(array.layout, shape, array.dtype.itemsize)
    if layout is None:
        raise ShapeError(
            f"{operation}: expected {name} to be C-contiguous, got strides {array.strides} "
            f"of shape {tuple(array.shape)}",
            "copy it with assay.xp.asarray(x, copy=True)",
        )
    return array.view(layout)


def result(
    operation: str, device: Device, out: Array | None, shape: Shape, dtype: DType = dtypes.float32
) -> Array:
    """The result array: `out` if it fits, or a new one."""
    if out is None:
        return allocation.empty(device, shape, dtype, operation)
    return check(operation, "out", out, shape, (dtype,))


def call(
    operation: str,
    given: Sequence[Array | Operand | None],
    numbers: Sequence[int | float],
    device: Device,
    count: Count,
    label: str | None = None,
) -> None:
    """Queue the operation on the device's current stream; operands are in the table's order."""
    operands: list[Operand | None] = []
    arrays = list(zip(OPERATIONS[operation][0], given, strict=True))
    for name, array in arrays:
        if isinstance(array, Array):
            if array.device is not device:
                raise DeviceError(
                    f"{operation}: expected {name} on device {device}, got {array.device}",
                    "move it with to_device",
                )
            if array.size == 0:
                _require_empty_results(operation, name, array, arrays)
                return
            if operation in PURE and name not in RESULTS and not array.buffer.pooled:
                # It imports NumPy, which an answer of the engine does not need.
                from assay.runtime import interop

                array = interop.asarray(array, None, device, True)
            operands.append(operand(operation, name, array))
        else:
            operands.append(array)
    if not device.capabilities.kernels_check_overlap:
        check_overlap(operation, arrays)
    device.operate(
        operation, operands, numbers, label=label or operation, bytes=count.bytes, flops=count.flops
    )


def _require_empty_results(
    operation: str, name: str, empty: Array, arrays: Sequence[tuple[str, Array | Operand | None]]
) -> None:
    """Raise where operands are empty and results are not."""
    for result_name, result_array in arrays:
        is_result = result_name in RESULTS and isinstance(result_array, Array)
        if is_result and isinstance(result_array, Array) and result_array.size:
            raise ShapeError(
                f"{operation}: expected {name} with elements, got shape {tuple(empty.shape)}"
            )


def check_overlap(operation: str, arrays: Sequence[tuple[str, Array | Operand | None]]) -> None:
    """Raise for results that overlap operands; GPU threads read and write in any order."""
    given = [(name, array) for name, array in arrays if isinstance(array, Array)]
    for written, out in given:
        if written not in RESULTS:
            continue
        for name, array in given:
            overlaps = (
                array.buffer is out.buffer
                and array.offset < out.offset + out.nbytes
                and out.offset < array.offset + array.nbytes
            )
            if name != written and overlaps:
                raise DeviceError(
                    f"{operation}: expected {written} apart from {name}, got memory of both"
                )


def nbytes(*arrays: Array | None) -> int:
    """Total bytes of the arrays that are not None."""
    return sum(array.nbytes for array in arrays if array is not None)
