"""Making arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from assay.errors import DTypeError, ShapeError
from assay.runtime import allocation, dtypes, elementwise_kernels, interop, numpy_kernels, transfer
from assay.runtime.array import Array, Scalar
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, device as find_device
from assay.runtime.layout import Layout, as_shape, broadcast, broadcast_shapes

Where = Device | str | None
Type = DType | str | None


def _device(device: Where, fallback: Device | None = None) -> Device:
    return find_device(device) if device is not None else fallback or find_device()


def _type(dtype: Type, fallback: DType, operation: str) -> DType:
    return fallback if dtype is None else dtypes.as_dtype(dtype, operation)


def asarray(
    obj: Any, /, *, dtype: Type = None, device: Where = None, copy: bool | None = None
) -> Array:
    """An array of numbers, nested lists or another library's array.

    Memory of NumPy arrays and of what speaks the buffer protocol or DLPack is shared where it
    can be; `copy=True` never shares and `copy=False` never copies.
    """
    result_dtype = None if dtype is None else dtypes.as_dtype(dtype, "asarray")
    where = None if device is None else find_device(device)
    return interop.asarray(obj, result_dtype, where, copy)


def from_dlpack(x: object, /, *, device: Where = None, copy: bool | None = None) -> Array:
    """An array over the memory of any object that speaks DLPack."""
    return interop.from_dlpack(x, None if device is None else find_device(device), copy)


def empty(shape: int | Sequence[int], *, dtype: Type = None, device: Where = None) -> Array:
    """An array whose elements are whatever the memory holds."""
    result_dtype = _type(dtype, dtypes.float64, "empty")
    return allocation.empty(_device(device), as_shape(shape, "empty"), result_dtype, "empty")


def empty_like(x: Array, /, *, dtype: Type = None, device: Where = None) -> Array:
    """An array of the shape of another whose elements are whatever the memory holds."""
    result_dtype = _type(dtype, x.dtype, "empty_like")
    return allocation.empty(_device(device, x.device), x.shape, result_dtype, "empty_like")


def zeros(shape: int | Sequence[int], *, dtype: Type = None, device: Where = None) -> Array:
    """An array of zeros."""
    result_dtype = _type(dtype, dtypes.float64, "zeros")
    return allocation.zeros(_device(device), as_shape(shape, "zeros"), result_dtype, "zeros")


def zeros_like(x: Array, /, *, dtype: Type = None, device: Where = None) -> Array:
    """An array of zeros of the shape of another."""
    result_dtype = _type(dtype, x.dtype, "zeros_like")
    return allocation.zeros(_device(device, x.device), x.shape, result_dtype, "zeros_like")


def _filled(
    target: Device, shape: tuple[int, ...], value: Scalar, dtype: DType, operation: str
) -> Array:
    if isinstance(value, complex) and dtype.kind != "complex":
        raise DTypeError(f"{operation}: expected a value that fits {dtype}, got {value!r}")
    try:
        kind = np.float64 if dtype is dtypes.bfloat16 else dtype.storage
        with np.errstate(all="ignore"):
            constant = np.asarray(value, kind)
    except OverflowError:
        raise DTypeError(
            f"{operation}: expected a value that fits {dtype}, got {value!r}"
        ) from None
    out = allocation.empty(target, shape, dtype, operation)
    transfer.write(operation, out, constant)
    return out


def ones(shape: int | Sequence[int], *, dtype: Type = None, device: Where = None) -> Array:
    """An array of ones."""
    result_dtype = _type(dtype, dtypes.float64, "ones")
    return _filled(_device(device), as_shape(shape, "ones"), 1, result_dtype, "ones")


def ones_like(x: Array, /, *, dtype: Type = None, device: Where = None) -> Array:
    """An array of ones of the shape of another."""
    result_dtype = _type(dtype, x.dtype, "ones_like")
    return _filled(_device(device, x.device), x.shape, 1, result_dtype, "ones_like")


def full(
    shape: int | Sequence[int], fill_value: Scalar, *, dtype: Type = None, device: Where = None
) -> Array:
    """An array of one value; its type is the value's where none is named."""
    result_dtype = _type(dtype, dtypes.default_for(type(fill_value).__name__), "full")
    return _filled(_device(device), as_shape(shape, "full"), fill_value, result_dtype, "full")


def full_like(
    x: Array, /, fill_value: Scalar, *, dtype: Type = None, device: Where = None
) -> Array:
    """An array of one value of the shape of another."""
    result_dtype = _type(dtype, x.dtype, "full_like")
    return _filled(_device(device, x.device), x.shape, fill_value, result_dtype, "full_like")


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Type = None,
    device: Where = None,
) -> Array:
    """Evenly spaced values from `start`, or 0, up to but not with `stop`."""
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange: expected a step other than 0, got 0")
    whole = all(isinstance(value, int) for value in (first, end, step))
    result_dtype = _type(dtype, dtypes.int64 if whole else dtypes.float64, "arange")
    exact = -((first - end) // step) if whole else math.ceil((end - first) / step)
    count = max(int(exact), 0)
    target = _device(device)
    if count and elementwise_kernels.supports(target, 1, [result_dtype]):
        exact_type = (
            result_dtype if whole and result_dtype.kind in dtypes.INTEGRAL else dtypes.float64
        )
        numbers = [exact_type.storage.type(value) for value in (first, step)]
        return elementwise_kernels.compute(
            "arange", "ramp(index,a0,a1)", exact_type, numbers, target, (count,), result_dtype
        )
    out = allocation.empty(target, (count,), result_dtype, "arange")
    if count:
        kind = (
            result_dtype.storage
            if whole and result_dtype.kind in dtypes.INTEGRAL
            else np.dtype(np.float64)
        )
        ramp = np.arange(count, dtype=kind)
        transfer.write("arange", out, (ramp * kind.type(step) + kind.type(first)).astype(kind))
    return out


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Type = None,
    device: Where = None,
    endpoint: bool = True,
) -> Array:
    """`num` evenly spaced values from `start` to `stop`, with or without the latter."""
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    result_dtype = _type(dtype, dtypes.complex128 if is_complex else dtypes.float64, "linspace")
    dtypes.require_kind(result_dtype, dtypes.FLOATING, "linspace")
    if num < 0:
        raise ShapeError(f"linspace: expected at least 0 values, got {num}")
    kind = np.dtype(np.float32) if result_dtype is dtypes.bfloat16 else result_dtype.storage
    with np.errstate(all="ignore"):
        steps = np.linspace(start, stop, num, endpoint=endpoint, dtype=kind)
    return transfer.store("linspace", _device(device), steps, result_dtype)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Type = None,
    device: Where = None,
) -> Array:
    """A matrix with ones on one diagonal and zeros elsewhere."""
    result_dtype = _type(dtype, dtypes.float64, "eye")
    columns = n_rows if n_cols is None else n_cols
    shape = as_shape((n_rows, columns), "eye")
    out = allocation.zeros(_device(device), shape, result_dtype, "eye")
    length = min(n_rows, columns - k) if k >= 0 else min(n_rows + k, columns)
    if length > 0 and elementwise_kernels.supports(out.device, 1, [result_dtype]):
        corner = max(-k, 0) * out.strides[0] + max(k, 0) * out.strides[1]
        diagonal = out.view(Layout((length,), (sum(out.strides),), corner))
        elementwise_kernels.fill("eye", diagonal, 1)
    elif length > 0:
        numpy_kernels.launch(
            "eye",
            lambda view: np.einsum("ii->i", view[max(-k, 0) :, max(k, 0) :][:length, :length]).fill(
                1
            ),
            [],
            [out],
        )
    return out


def _triangle(x: Array, k: int, operation: str, keep: Any) -> Array:
    if x.ndim < 2:
        raise ShapeError(f"{operation}: expected at least 2 axes, got shape {x.shape}")
    if elementwise_kernels.supports(x.device, x.ndim, [x.dtype]):
        return _banded(x, k, operation, below=keep is np.tril)
    return numpy_kernels.compute(
        operation, lambda view, out: np.copyto(out, keep(view, k)), [x], x.shape, x.dtype
    )


def _banded(x: Array, k: int, operation: str, *, below: bool) -> Array:
    """The elements on one side of a diagonal, chosen by the numbers of rows and columns."""
    rows = arange(x.shape[-2], device=x.device)
    columns = arange(x.shape[-1], device=x.device)
    shape = (x.shape[-2], x.shape[-1])
    text = "less_equal(subtract(a0,a1),a2)" if below else "greater_equal(subtract(a0,a1),a2)"
    ahead = rows.view(Layout((x.shape[-2], 1), (*rows.strides, 0), 0))
    inputs: list[elementwise_kernels.Input] = [columns, ahead, np.asarray(k)]
    masked = elementwise_kernels.compute(
        operation, text, dtypes.int64, inputs, x.device, shape, dtypes.bool_
    )
    zero = x.dtype.storage.type(0)
    return elementwise_kernels.compute(
        operation, "where(a0,a1,a2)", x.dtype, [masked, x, zero], x.device, x.shape, x.dtype
    )


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The elements on and below a diagonal; zeros above it."""
    return _triangle(x, k, "tril", np.tril)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The elements on and above a diagonal; zeros below it."""
    return _triangle(x, k, "triu", np.triu)


def meshgrid(*arrays: Array, indexing: Literal["xy", "ij"] = "xy") -> list[Array]:
    """Coordinates of a grid, one array for each axis."""
    if indexing not in ("xy", "ij"):
        raise ShapeError(f'meshgrid: expected indexing "xy" or "ij", got {indexing!r}')
    if any(array.ndim > 1 for array in arrays):
        raise ShapeError("meshgrid: expected arrays of at most 1 axis, got more")
    if len({array.dtype for array in arrays}) > 1:
        raise DTypeError("meshgrid: expected arrays of one type, got several")
    axes = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        axes[0], axes[1] = 1, 0
    shaped = [
        array.view(
            broadcast(
                array.layout._replace(
                    shape=tuple(array.size if at == axis else 1 for at in range(len(arrays))),
                    strides=tuple(
                        (array.strides or (0,))[0] if at == axis else 0 for at in range(len(arrays))
                    ),
                ),
                tuple(array.size if at == axis else 1 for at in range(len(arrays))),
                "meshgrid",
            )
        )
        for array, axis in zip(arrays, axes, strict=True)
    ]
    shape = broadcast_shapes("meshgrid", *(array.shape for array in shaped))
    return [
        transfer.copy(array.view(broadcast(array.layout, shape, "meshgrid")), "meshgrid")
        for array in shaped
    ]
