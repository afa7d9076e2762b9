"""Elementwise operations and the matrix product: which types each takes and gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from assay.errors import DTypeError, ShapeError
from assay.runtime import dtypes, launching
from assay.runtime.array import Array, Scalar
from assay.runtime.dtypes import ANY, FLOATING, INTEGRAL, NUMERIC, REAL, DType
from assay.runtime.layout import broadcast_shapes

_BITS: Final = ("bool", *INTEGRAL)
_FLOAT: Final = ("float",)


class Elementwise(NamedTuple):
    """One elementwise operation: NumPy's loop, the kinds it takes, and what comes out."""

    loop: Callable[..., Any]
    kinds: tuple[str, ...]
    gives: str = "same"
    """same, bool, or real: the parts of a complex type"""


def _sign(value: Any, out: Any) -> None:
    np.sign(value, out=out)
    if value.dtype.kind in "fc":
        # NaN is neither; NumPy leaves a complex one half NaN.
        np.copyto(out, np.nan, where=np.isnan(value))


def _real(value: Any, out: Any) -> None:
    np.copyto(out, value.real)


def _imag(value: Any, out: Any) -> None:
    np.copyto(out, value.imag)


def _expm1(value: Any, out: Any) -> None:
    if value.dtype.kind != "c":
        np.expm1(value, out=out)
        return
    real, imaginary = value.real, value.imag
    endless = np.isinf(real) & ~np.isfinite(imaginary)
    on_axis = imaginary == 0
    # (exp(a) - 1) cos b + cos b - 1, and cos b - 1 = -2 sin(b / 2)^2 without cancellation.
    part = np.expm1(real) * np.cos(imaginary) - 2 * np.square(np.sin(imaginary / 2))
    part = np.where(on_axis, np.expm1(real) + 0.0, part)
    other = np.where(on_axis, imaginary, np.exp(real) * np.sin(imaginary))
    # Where the angle has no value the length still has one: it is 0 or infinite.
    out.real = np.where(endless, np.expm1(real), part)
    out.imag = np.where(endless, np.where(real < 0, 0.0, np.nan), other)


def _trunc(value: Any, out: Any) -> None:
    np.copyto(out, value) if value.dtype.kind in "iu" else np.trunc(value, out=out)


def _ceil(value: Any, out: Any) -> None:
    np.copyto(out, value) if value.dtype.kind in "iu" else np.ceil(value, out=out)


def _floor(value: Any, out: Any) -> None:
    np.copyto(out, value) if value.dtype.kind in "iu" else np.floor(value, out=out)


def _round(value: Any, out: Any) -> None:
    np.copyto(out, np.round(value))


UNARY: Final[dict[str, Elementwise]] = {
    "abs": Elementwise(np.absolute, NUMERIC, "real"),
    "acos": Elementwise(np.arccos, FLOATING),
    "acosh": Elementwise(np.arccosh, FLOATING),
    "asin": Elementwise(np.arcsin, FLOATING),
    "asinh": Elementwise(np.arcsinh, FLOATING),
    "atan": Elementwise(np.arctan, FLOATING),
    "atanh": Elementwise(np.arctanh, FLOATING),
    "bitwise_invert": Elementwise(np.invert, _BITS),
    "ceil": Elementwise(_ceil, REAL),
    "conj": Elementwise(np.conjugate, NUMERIC),
    "cos": Elementwise(np.cos, FLOATING),
    "cosh": Elementwise(np.cosh, FLOATING),
    "exp": Elementwise(np.exp, FLOATING),
    "expm1": Elementwise(_expm1, FLOATING),
    "floor": Elementwise(_floor, REAL),
    "imag": Elementwise(_imag, ("complex",), "real"),
    "isfinite": Elementwise(np.isfinite, NUMERIC, "bool"),
    "isinf": Elementwise(np.isinf, NUMERIC, "bool"),
    "isnan": Elementwise(np.isnan, NUMERIC, "bool"),
    "log": Elementwise(np.log, FLOATING),
    "log10": Elementwise(np.log10, FLOATING),
    "log1p": Elementwise(np.log1p, FLOATING),
    "log2": Elementwise(np.log2, FLOATING),
    "logical_not": Elementwise(np.logical_not, ("bool",)),
    "negative": Elementwise(np.negative, NUMERIC),
    "positive": Elementwise(np.positive, NUMERIC),
    "real": Elementwise(_real, NUMERIC, "real"),
    "reciprocal": Elementwise(np.reciprocal, FLOATING),
    "round": Elementwise(_round, NUMERIC),
    "sign": Elementwise(_sign, NUMERIC),
    "signbit": Elementwise(np.signbit, _FLOAT, "bool"),
    "sin": Elementwise(np.sin, FLOATING),
    "sinh": Elementwise(np.sinh, FLOATING),
    "sqrt": Elementwise(np.sqrt, FLOATING),
    "square": Elementwise(np.square, NUMERIC),
    "tan": Elementwise(np.tan, FLOATING),
    "tanh": Elementwise(np.tanh, FLOATING),
    "trunc": Elementwise(_trunc, REAL),
}

BINARY: Final[dict[str, Elementwise]] = {
    "add": Elementwise(np.add, NUMERIC),
    "atan2": Elementwise(np.arctan2, _FLOAT),
    "bitwise_and": Elementwise(np.bitwise_and, _BITS),
    "bitwise_left_shift": Elementwise(np.left_shift, INTEGRAL),
    "bitwise_or": Elementwise(np.bitwise_or, _BITS),
    "bitwise_right_shift": Elementwise(np.right_shift, INTEGRAL),
    "bitwise_xor": Elementwise(np.bitwise_xor, _BITS),
    "copysign": Elementwise(np.copysign, _FLOAT),
    "divide": Elementwise(np.divide, FLOATING),
    "equal": Elementwise(np.equal, ANY, "bool"),
    "floor_divide": Elementwise(np.floor_divide, REAL),
    "greater": Elementwise(np.greater, REAL, "bool"),
    "greater_equal": Elementwise(np.greater_equal, REAL, "bool"),
    "hypot": Elementwise(np.hypot, _FLOAT),
    "less": Elementwise(np.less, REAL, "bool"),
    "less_equal": Elementwise(np.less_equal, REAL, "bool"),
    "logaddexp": Elementwise(np.logaddexp, _FLOAT),
    "logical_and": Elementwise(np.logical_and, ("bool",)),
    "logical_or": Elementwise(np.logical_or, ("bool",)),
    "logical_xor": Elementwise(np.logical_xor, ("bool",)),
    "maximum": Elementwise(np.maximum, REAL),
    "minimum": Elementwise(np.minimum, REAL),
    "multiply": Elementwise(np.multiply, NUMERIC),
    "nextafter": Elementwise(np.nextafter, _FLOAT),
    "not_equal": Elementwise(np.not_equal, ANY, "bool"),
    "pow": Elementwise(np.power, NUMERIC),
    "remainder": Elementwise(np.remainder, REAL),
    "subtract": Elementwise(np.subtract, NUMERIC),
}


def _result_type(gives: str, dtype: DType) -> DType:
    if gives == "bool":
        return dtypes.bool_
    if gives == "real" and dtype.kind == "complex":
        return dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64
    return dtype


def _flops(dtype: DType, size: int) -> float:
    return float(size) if dtype.kind in FLOATING else 0.0


def _require_array(value: object, operation: str) -> Array:
    if not isinstance(value, Array):
        raise DTypeError(
            f"{operation}: expected an array, got {type(value).__name__}", "convert it with asarray"
        )
    return value


def unary(name: str, x: Array) -> Array:
    """Apply an elementwise operation of one operand."""
    rule = UNARY[name]
    _require_array(x, name)
    dtypes.require_kind(x.dtype, rule.kinds, name)
    out_type = _result_type(rule.gives, x.dtype)
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

        return _Operands(arrays, both, shape, common)
    array = arrays[0]
    scalar = second if array is first else first
    common = dtypes.scalar_dtype(scalar, array.dtype, name)
    kind = _computed(common)
    constant = _constant(name, scalar, kind)

    def one(a: Any, *_: Any) -> tuple[Any, Any]:
        value = a.astype(kind, copy=False)
        return (value, constant) if array is first else (constant, value)

    return _Operands(arrays, one, array.shape, common)


def _computed(dtype: DType) -> np.dtype[Any]:
    """The NumPy type in which an operation on this type is computed."""
    return np.dtype(np.float32) if dtype is dtypes.bfloat16 else dtype.storage


def _constant(name: str, scalar: Scalar, kind: np.dtype[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(scalar, kind)
    except OverflowError:
        raise DTypeError(f"{name}: expected a scalar that fits {kind}, got {scalar}") from None


def binary(name: str, first: Any, second: Any) -> Any:
    """Apply an elementwise operation of two operands; NotImplemented for what is no operand."""
    operands = _operands(name, first, second)
    if operands is None:
        return NotImplemented
    rule = BINARY[name]
    dtypes.require_kind(operands.common, rule.kinds, name)
    out_type = _result_type(rule.gives, operands.common)
    size = math.prod(operands.shape)

    def kernel(*views: Any) -> None:
        a, b = operands.arrange(*views[:-1])
        _loop(rule, a, b, views[-1])

    flops = _flops(operands.common, size)
    if name == "nextafter" and out_type is dtypes.bfloat16:
        raise DTypeError("nextafter: expected float16, float32 or float64, got bfloat16")
    return launching.compute(name, kernel, operands.reads, operands.shape, out_type, flops=flops)


def _loop(rule: Elementwise, a: Any, b: Any, out: Any) -> None:
    if rule.loop is np.power and a.dtype.kind in "iu":
        _integer_power(a, b, out)
    else:
        rule.loop(a, b, out=out)


def _integer_power(a: Any, b: Any, out: Any) -> None:
    if np.any(np.less(b, 0)):
        raise DTypeError(
            "pow: expected exponents of at least 0 for integers, got negative ones",
            "convert to a floating type with astype",
        )
    np.power(a, b, out=out)


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

    def kernel(*views: Any) -> None:
        a, b = operands.arrange(*views[:-1])
        _loop(rule, a, b, views[-1])

    flops = _flops(target.dtype, target.size)
    launching.launch(name, kernel, operands.reads, [target], flops=flops)
    return target


def matmul(first: Any, second: Any) -> Any:
    """The matrix product, batched over the leading axes."""
    if not (isinstance(first, Array) and isinstance(second, Array)):
        _refuse_numpy("matmul", first, second)
        return NotImplemented
    common = dtypes.promote(first.dtype, second.dtype, "matmul")
    dtypes.require_kind(common, NUMERIC, "matmul")
    shape, inner = _product_shape(first.shape, second.shape)
    kind = _computed(common)

    def kernel(a: Any, b: Any, out: Any) -> None:
        np.matmul(a.astype(kind, copy=False), b.astype(kind, copy=False), out=out)

    each = 8.0 if common.kind == "complex" else 2.0
    flops = each * math.prod(shape) * inner if common.kind in FLOATING else 0.0
    return launching.compute("matmul", kernel, [first, second], shape, common, flops=flops)


def _product_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    if not first or not second:
        raise ShapeError(f"matmul: expected at least 1 axis, got shapes {first} and {second}")
    rows = first[-2:-1]
    columns = second[-1:] if len(second) > 1 else ()
    inner = second[-2] if len(second) > 1 else second[0]
    if first[-1] != inner:
        raise ShapeError(
            f"matmul: expected equal inner extents, got {first[-1]} and {inner} "
            f"in shapes {first} and {second}"
        )
    batch = broadcast_shapes("matmul", first[:-2], second[:-2])
    return (*batch, *rows, *columns), inner


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
