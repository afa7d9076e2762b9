"""Applying elementwise operations: operands joined, results allocated, in place or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from assay._native import NativeOperators
from assay.errors import DTypeError, ShapeError
from assay.runtime import dtypes, kernel_axes, kernels, launching, products
from assay.runtime.array import Array, Scalar
from assay.runtime.dtypes import FLOATING, DType
from assay.runtime.layout import broadcast_shapes
from assay.runtime.rules import BINARY, UNARY, Elementwise, result_type


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
    if device.has_array_kernels and (made := kernels.unary(name, x, device)) is not None:
        return made
    rule = UNARY[name]
    dtypes.require_kind(x.dtype, rule.kinds, name)
    out_type = result_type(rule.gives, x.dtype)
    flops = _flops(x.dtype, x.size)
    return launching.compute(
        name, lambda value, out: rule.loop(value, out=out), [x], x.shape, out_type, flops=flops
    )


def _is_scalar(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _refuse_numpy(name: str, *operands: object) -> None:
    """Refuse NumPy's arrays by name; NumPy would take the expression over."""
    for value in operands:
        if isinstance(value, (np.ndarray, np.generic)):
            raise DTypeError(
                f"{name}: expected an array of Assay, got numpy.{type(value).__name__}",
                "convert it with asarray",
            )


class _Operands(NamedTuple):
    reads: list[Array]
    """The operands that are arrays."""
    inputs: tuple[kernels.Input, kernels.Input]
    """Both operands, the number among them in the common type."""
    arrange: Callable[..., tuple[Any, Any]]
    """From their views to both operands in the common type."""
    shape: tuple[int, ...]
    common: DType


def _operands(name: str, first: Any, second: Any) -> _Operands | None:
    """Both operands joined, or None where one is nothing that arrays go with."""
    arrays = [value for value in (first, second) if isinstance(value, Array)]
    if not arrays or not all(isinstance(v, Array) or _is_scalar(v) for v in (first, second)):
        _refuse_numpy(name, first, second)
        return None
    if len(arrays) == 2:
        common = dtypes.promote(first.dtype, second.dtype, name)
        shape = broadcast_shapes(name, first.shape, second.shape)
        kind = _computed(common)

        def both(a: Any, b: Any, *_: Any) -> tuple[Any, Any]:
            return a.astype(kind, copy=False), b.astype(kind, copy=False)

        return _Operands(arrays, (first, second), both, shape, common)
    array = arrays[0]
    scalar = second if array is first else first
    common = dtypes.scalar_dtype(scalar, array.dtype, name)
    kind = _computed(common)
    constant = _constant(name, scalar, kind)

    leads = array is first

    def one(a: Any, *_: Any) -> tuple[Any, Any]:
        value = a.astype(kind, copy=False)
        return (value, constant) if leads else (constant, value)

    inputs = (array, constant) if leads else (constant, array)
    return _Operands(arrays, inputs, one, array.shape, common)


def _computed(dtype: DType) -> np.dtype[Any]:
    """The NumPy type in which an operation on this type is computed."""
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
        if device.has_array_kernels and device is second.device:
            made = kernels.binary(name, first, second, device)
            if made is not None:
                return made
    operands = _operands(name, first, second)
    if operands is None:
        return NotImplemented
    rule = BINARY[name]
    dtypes.require_kind(operands.common, rule.kinds, name)
    out_type = result_type(rule.gives, operands.common)
    size = math.prod(operands.shape)
    if _has_kernel(name, rule, operands):
        device = launching.one_device(name, operands.reads)
        return kernels.compute(
            name,
            rule.expression,
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
        _loop(rule, a, b, views[-1])

    flops = _flops(operands.common, size)
    if name == "nextafter" and out_type is dtypes.bfloat16:
        raise DTypeError("nextafter: expected float16, float32 or float64, got bfloat16")
    return launching.compute(name, kernel, operands.reads, operands.shape, out_type, flops=flops)


def _has_kernel(name: str, rule: Elementwise, operands: _Operands) -> bool:
    """Whether a kernel of the device does it; exponents of integers are looked at first."""
    common = operands.common
    device = operands.reads[0].device
    if not kernels.serve(device, len(operands.shape), [common]):
        return False
    if kernels.plan(name, rule, common) is None:
        return False
    if rule.loop is np.power and common.kind == "int":
        exponent = operands.inputs[1]
        if isinstance(exponent, Array):
            negative = bool(exponent.size) and kernel_axes.extremes(name, exponent)[0] < 0
        else:
            negative = int(exponent) < 0
        if negative:
            _refuse_exponents()
    return True


def _loop(rule: Elementwise, a: Any, b: Any, out: Any) -> None:
    if rule.loop is np.power and a.dtype.kind in "iu":
        _integer_power(a, b, out)
    else:
        rule.loop(a, b, out=out)


def _integer_power(a: Any, b: Any, out: Any) -> None:
    if np.any(np.less(b, 0)):
        _refuse_exponents()
    np.power(a, b, out=out)


def _refuse_exponents() -> None:
    raise DTypeError(
        "pow: expected exponents of at least 0 for integers, got negative ones",
        "convert to a floating type with astype",
    )


def require(result: Any, name: str, *operands: object) -> Array:
    """The result of an operation called by name, which takes arrays and Python numbers only."""
    if result is NotImplemented:
        kinds = " and ".join(type(value).__name__ for value in operands)
        raise DTypeError(
            f"{name}: expected arrays, or an array and a number, got {kinds}",
            "convert with asarray",
        )
    array: Array = result
    return array


def in_place(name: str, target: Array, other: Any) -> Any:
    """Apply an operation of two operands and keep the result in the first."""
    operands = _operands(name, target, other)
    if operands is None:
        return NotImplemented
    rule = BINARY[name]
    dtypes.require_kind(operands.common, rule.kinds, name)
    if operands.common is not target.dtype:
        raise DTypeError(
            f"{name} in place: expected a result of type {target.dtype}, got {operands.common}"
        )
    if operands.shape != target.shape:
        raise ShapeError(
            f"{name} in place: expected a result of shape {target.shape}, got {operands.shape}"
        )

    flops = _flops(target.dtype, target.size)
    if _has_kernel(name, rule, operands):
        launching.one_device(name, operands.reads)
        launching.require_writable(target, name)
        inputs = [
            one if one is target or not isinstance(one, Array) else kernels.apart(name, one, target)
            for one in operands.inputs
        ]
        kernels.write(name, rule.expression, operands.common, inputs, target, flops)
        return target
    arrange = operands.arrange

    def kernel(*views: Any) -> None:
        a, b = arrange(*views[:-1])
        _loop(rule, a, b, views[-1])

    launching.launch(name, kernel, operands.reads, [target], flops=flops)
    return target


def matmul(first: Any, second: Any) -> Any:
    """The matrix product; NotImplemented for what is no array."""
    if not (isinstance(first, Array) and isinstance(second, Array)):
        _refuse_numpy("matmul", first, second)
        return NotImplemented
    return products.matmul(first, second)


def matmul_in_place(target: Array, other: Any) -> Any:
    """The matrix product, kept in the first operand."""
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


_native: Final = NativeOperators(kernels.native_plan, _unary, _binary)

unary: Final[Callable[[str, Array], Array]] = _native.unary
"""Apply an elementwise operation of one operand: its name, then the array."""

binary: Final = _native.binary
"""Apply an elementwise operation of two operands; NotImplemented for what is no operand."""

# Operators come here without a detour from now on; before, they import this module.
_native.install()
Array._binary = staticmethod(binary)  # type: ignore[method-assign]
