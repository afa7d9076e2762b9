"""Applying ufuncs: dtype promotion, broadcasting, result allocation, in place or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from assay._native import NativeOperators
from assay.errors import DTypeError, ShapeError
from assay.runtime import (
    allocation,
    axis_kernels,
    dtypes,
    elementwise_kernels,
    matmul as matmuls,
    numpy_kernels,
)
from assay.runtime.array import Array, Scalar
from assay.runtime.dtypes import FLOATING, DType
from assay.runtime.layout import broadcast_shapes
from assay.runtime.ufuncs import BINARY, UNARY, Ufunc, result_dtype


def _flops(dtype: DType, size: int) -> float:
    return float(size) if dtype.kind in FLOATING else 0.0


def _require_array(value: object, operation: str) -> Array:
    if not isinstance(value, Array):
        raise DTypeError(
            f"{operation}: expected an array, got {type(value).__name__}", "convert it with asarray"
        )
    return value


def _unary(name: str, x: Array) -> Array:
    _require_array(x, name)
    device = x.device
    if (
        device.capabilities.has_array_kernels
        and (result := elementwise_kernels.unary(name, x, device)) is not None
    ):
        return result
    ufunc = UNARY[name]
    dtypes.require_kind(x.dtype, ufunc.kinds, name)
    out_type = result_dtype(ufunc.result, x.dtype)
    flops = _flops(x.dtype, x.size)
    return numpy_kernels.compute(
        name, lambda value, out: ufunc.loop(value, out=out), [x], x.shape, out_type, flops=flops
    )


def _is_scalar(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _refuse_numpy(name: str, *operands: object) -> None:
    """Raise for NumPy arrays, with their type; otherwise NumPy would evaluate the expression."""
    for value in operands:
        if isinstance(value, (np.ndarray, np.generic)):
            raise DTypeError(
                f"{name}: expected an array of Assay, got numpy.{type(value).__name__}",
                "convert it with asarray",
            )


class _Operands(NamedTuple):
    reads: list[Array]
    """The operands that are arrays."""
    inputs: tuple[elementwise_kernels.Input, elementwise_kernels.Input]
    """Both operands; a scalar is in the promoted dtype."""
    arrange: Callable[..., tuple[Any, Any]]
    """Maps the views of the arrays to both operands in the promoted dtype."""
    shape: tuple[int, ...]
    common: DType


def _operands(name: str, first: Any, second: Any) -> _Operands | None:
    """Both operands promoted and broadcast; None where one is neither array nor scalar."""
    arrays = [value for value in (first, second) if isinstance(value, Array)]
    if not arrays or not all(isinstance(v, Array) or _is_scalar(v) for v in (first, second)):
        _refuse_numpy(name, first, second)
        return None
    if len(arrays) == 2:
        common = dtypes.promote(first.dtype, second.dtype, name)
        shape = broadcast_shapes(name, first.shape, second.shape)
        kind = _compute_dtype(common)

        def both(a: Any, b: Any, *_: Any) -> tuple[Any, Any]:
            return a.astype(kind, copy=False), b.astype(kind, copy=False)

        return _Operands(arrays, (first, second), both, shape, common)
    array = arrays[0]
    scalar = second if array is first else first
    common = dtypes.scalar_dtype(scalar, array.dtype, name)
    kind = _compute_dtype(common)
    constant = _constant(name, scalar, kind)

    array_first = array is first

    def one(a: Any, *_: Any) -> tuple[Any, Any]:
        value = a.astype(kind, copy=False)
        return (value, constant) if array_first else (constant, value)

    inputs = (array, constant) if array_first else (constant, array)
    return _Operands(arrays, inputs, one, array.shape, common)


def _compute_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which an operation on this dtype is computed."""
    return np.dtype(np.float32) if dtype is dtypes.bfloat16 else dtype.storage


def _constant(name: str, scalar: Scalar, kind: np.dtype[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(scalar, kind)
    except OverflowError:
        raise DTypeError(f"{name}: expected a scalar that fits {kind}, got {scalar}") from None


def _binary(name: str, first: Any, second: Any) -> Any:
    if type(first) is Array and type(second) is Array:
        device = first.device
        if device.capabilities.has_array_kernels and device is second.device:
            result = elementwise_kernels.binary(name, first, second, device)
            if result is not None:
                return result
    operands = _operands(name, first, second)
    if operands is None:
        return NotImplemented
    ufunc = BINARY[name]
    dtypes.require_kind(operands.common, ufunc.kinds, name)
    out_type = result_dtype(ufunc.result, operands.common)
    size = math.prod(operands.shape)
    if _has_kernel(name, ufunc, operands):
        device = allocation.common_device(name, operands.reads)
        return elementwise_kernels.compute(
            name,
            ufunc.expression,
            operands.common,
            operands.inputs,
            device,
            operands.shape,
            out_type,
            _flops(operands.common, size),
        )

    arrange = operands.arrange

    def kernel(*views: Any) -> None:
        a, b = arrange(*views[:-1])
        _loop(ufunc, a, b, views[-1])

    flops = _flops(operands.common, size)
    if name == "nextafter" and out_type is dtypes.bfloat16:
        raise DTypeError("nextafter: expected float16, float32 or float64, got bfloat16")
    return numpy_kernels.compute(
        name, kernel, operands.reads, operands.shape, out_type, flops=flops
    )


def _has_kernel(name: str, ufunc: Ufunc, operands: _Operands) -> bool:
    """Whether the device has a kernel for it. Raises for negative exponents of integers."""
    common = operands.common
    device = operands.reads[0].device
    if not elementwise_kernels.supports(device, len(operands.shape), [common]):
        return False
    if elementwise_kernels.plan(name, ufunc, common) is None:
        return False
    if ufunc.loop is np.power and common.kind == "int":
        exponent = operands.inputs[1]
        if isinstance(exponent, Array):
            negative = bool(exponent.size) and axis_kernels.min_max(name, exponent)[0] < 0
        else:
            negative = int(exponent) < 0
        if negative:
            _raise_negative_exponents()
    return True


def _loop(ufunc: Ufunc, a: Any, b: Any, out: Any) -> None:
    if ufunc.loop is np.power and a.dtype.kind in "iu":
        _integer_power(a, b, out)
    else:
        ufunc.loop(a, b, out=out)


def _integer_power(a: Any, b: Any, out: Any) -> None:
    if np.any(np.less(b, 0)):
        _raise_negative_exponents()
    np.power(a, b, out=out)


def _raise_negative_exponents() -> None:
    raise DTypeError(
        "pow: expected exponents of at least 0 for integers, got negative ones",
        "convert to a floating type with astype",
    )


def require(result: Any, name: str, *operands: object) -> Array:
    """The result of a function call; raises where an operator would return NotImplemented."""
    if result is NotImplemented:
        kinds = " and ".join(type(value).__name__ for value in operands)
        raise DTypeError(
            f"{name}: expected arrays, or an array and a number, got {kinds}",
            "convert with asarray",
        )
    array: Array = result
    return array


def in_place(name: str, target: Array, other: Any) -> Any:
    """Apply a binary ufunc and write the result to the first operand."""
    operands = _operands(name, target, other)
    if operands is None:
        return NotImplemented
    ufunc = BINARY[name]
    dtypes.require_kind(operands.common, ufunc.kinds, name)
    if operands.common is not target.dtype:
        raise DTypeError(
            f"{name} in place: expected a result of type {target.dtype}, got {operands.common}"
        )
    if operands.shape != target.shape:
        raise ShapeError(
            f"{name} in place: expected a result of shape {target.shape}, got {operands.shape}"
        )

    flops = _flops(target.dtype, target.size)
    if _has_kernel(name, ufunc, operands):
        allocation.common_device(name, operands.reads)
        allocation.require_writable(target, name)
        inputs = [
            one
            if one is target or not isinstance(one, Array)
            else elementwise_kernels.without_overlap(name, one, target)
            for one in operands.inputs
        ]
        elementwise_kernels.launch(name, ufunc.expression, operands.common, inputs, target, flops)
        return target
    arrange = operands.arrange

    def kernel(*views: Any) -> None:
        a, b = arrange(*views[:-1])
        _loop(ufunc, a, b, views[-1])

    numpy_kernels.launch(name, kernel, operands.reads, [target], flops=flops)
    return target


def matmul(first: Any, second: Any) -> Any:
    """The matrix product; NotImplemented unless both operands are arrays."""
    if not (isinstance(first, Array) and isinstance(second, Array)):
        _refuse_numpy("matmul", first, second)
        return NotImplemented
    return matmuls.matmul(first, second)


def matmul_in_place(target: Array, other: Any) -> Any:
    """The matrix product, written to the first operand."""
    product = matmul(target, other)
    if product is NotImplemented:
        return NotImplemented
    if product.shape != target.shape or product.dtype is not target.dtype:
        raise ShapeError(
            f"matmul in place: expected {target.dtype} of shape {target.shape}, "
            f"got {product.dtype} of shape {product.shape}"
        )
    target[...] = product
    return target


_native: Final = NativeOperators(elementwise_kernels.native_plan, _unary, _binary)

unary: Final[Callable[[str, Array], Array]] = _native.unary
"""Apply a unary ufunc: its name, then the array."""

binary: Final[Callable[[str, Any, Any], Any]] = _native.binary
"""Apply a binary ufunc; NotImplemented for operands that are neither array nor scalar."""

# The native operators import this module at their first use; from then on they call it directly.
_native.install()
