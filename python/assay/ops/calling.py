"""Arrays as operands of native operations: checked, described, and handed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay._native import FORMATS, Buffer
from assay.errors import DeviceError, DTypeError, ShapeError
from assay.ops.counting import Count
from assay.runtime import dtypes, launching
from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.runtime.layout import Shape, row_major

Operand = tuple[Buffer, int, int, int]
"""Buffer, byte offset, bytes, code of the format."""

CODES: Final = {
    dtypes.float32: FORMATS["f32"],
    dtypes.float16: FORMATS["f16"],
    dtypes.bfloat16: FORMATS["bf16"],
    dtypes.int32: FORMATS["i32"],
    dtypes.int64: FORMATS["i64"],
    dtypes.uint8: FORMATS["u8"],
    dtypes.bool_: FORMATS["u8"],
}
"""Codes of the element types that operations take."""

DENSE: Final = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
F32: Final = (dtypes.float32,)
I32: Final = (dtypes.int32,)

RESULTS: Final = frozenset({"out", "q_out", "tokens"})
"""What operations call the arrays that they write from others."""


def reals(device: Device) -> tuple[DType, ...]:
    """What activations can be on a device: processors compute in single precision."""
    return DENSE if device.kind == "cuda" else F32


def check(
    operation: str,
    name: str,
    array: object,
    shape: Sequence[int | None],
    types: Sequence[DType] | None = None,
) -> Array:
    """An array of this shape, where None stands for any extent, and of one of these types.

    Without types, it holds activations.
    """
    if not isinstance(array, Array):
        raise DTypeError(
            f"{operation}: expected {name} as an array, got {type(array).__name__}",
            "make one with assay.xp.asarray",
        )
    if types is None:
        types = reals(array.device)
    if array.dtype not in types:
        wanted = " or ".join(dtype.name for dtype in types)
        raise DTypeError(f"{operation}: expected {name} of {wanted}, got {array.dtype}")
    fits = len(array.shape) == len(shape) and all(
        wanted is None or wanted == extent
        for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if extent is None else str(extent) for extent in shape)
        raise ShapeError(
            f"{operation}: expected {name} of shape ({wanted}), got {tuple(array.shape)}"
        )
    return array


def operand(operation: str, name: str, array: Array) -> Operand:
    """The array's memory as an operand; it has no gaps and is the pool's own."""
    if array.strides != row_major(array.shape, array.dtype.itemsize) and array.size > 1:
        raise ShapeError(
            f"{operation}: expected {name} in C order without gaps, got strides {array.strides} "
            f"of shape {tuple(array.shape)}",
            "copy it with assay.xp.asarray(x, copy=True)",
        )
    if not array.buffer.pooled:
        raise DeviceError(
            f"{operation}: expected {name} in the device's own memory, got borrowed memory",
            "copy it with assay.xp.asarray(x, copy=True)",
        )
    return (array.buffer, array.offset, array.nbytes, CODES[array.dtype])


def result(
    operation: str, device: Device, out: Array | None, shape: Shape, dtype: DType = dtypes.float32
) -> Array:
    """The array to write to: the one given, if it fits, or a fresh one."""
    if out is None:
        return launching.empty(device, shape, dtype, operation)
    return check(operation, "out", out, shape, (dtype,))


def call(
    operation: str,
    arrays: Sequence[tuple[str, Array | Operand | None]],
    numbers: Sequence[int | float],
    device: Device,
    count: Count,
    label: str | None = None,
) -> None:
    """Queue the operation on the device's current stream."""
    operands: list[Operand | None] = []
    for name, given in arrays:
        if isinstance(given, Array):
            if given.device is not device:
                raise DeviceError(
                    f"{operation}: expected {name} on device {device}, got {given.device}",
                    "move it with to_device",
                )
            if given.size == 0:
                _check_no_results(operation, name, given, arrays)
                return
            operands.append(operand(operation, name, given))
        else:
            operands.append(given)
    if device.kind == "cuda":
        check_apart(operation, arrays)
    device._context.operate(
        operation,
        operands,
        numbers,
        device.current_stream()._native,
        label=label or operation,
        bytes=count.bytes,
        flops=count.flops,
    )


def _check_no_results(
    operation: str, name: str, empty: Array, arrays: Sequence[tuple[str, Array | Operand | None]]
) -> None:
    """Refuse a call that would have something to write and nothing to make it of."""
    for each, given in arrays:
        if each in RESULTS and isinstance(given, Array) and given.size:
            raise ShapeError(
                f"{operation}: expected {name} with elements, got shape {tuple(empty.shape)}"
            )


def check_apart(operation: str, arrays: Sequence[tuple[str, Array | Operand | None]]) -> None:
    """Refuse to write memory that the operation also reads, as a processor's own kernels do.

    Threads of a GPU read and write in any order: the result would be anything.
    """
    given = [(name, array) for name, array in arrays if isinstance(array, Array)]
    for written, out in given:
        if written not in RESULTS:
            continue
        for name, array in given:
            meets = (
                array.buffer is out.buffer
                and array.offset < out.offset + out.nbytes
                and out.offset < array.offset + array.nbytes
            )
            if name != written and meets:
                raise DeviceError(
                    f"{operation}: expected {written} apart from {name}, got memory of both"
                )


def nbytes(*arrays: Array | None) -> int:
    """Bytes of all arrays that are there."""
    return sum(array.nbytes for array in arrays if array is not None)
