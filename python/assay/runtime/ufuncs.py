"""The universal functions (ufuncs): NumPy's loop, the dtype kinds it takes, and the result dtype.

On a device with array kernels the loop is an expression over the functions of
`kernels/array/expressions.cuh`, which have the same names; real dtypes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from assay.runtime.dtypes import (
    ANY,
    FLOATING,
    INTEGRAL,
    NUMERIC,
    REAL,
    DType,
    bool_,
    complex64,
    float32,
    float64,
)

_BITS: Final = ("bool", *INTEGRAL)
_FLOAT: Final = ("float",)


class Ufunc(NamedTuple):
    """One elementwise operation."""

    loop: Callable[..., Any]
    """NumPy's function."""
    kinds: tuple[str, ...]
    """The dtype kinds it takes."""
    result: str = "same"
    """The result dtype: same, bool, or real, the component dtype of a complex one."""
    expression: str = ""
    """The kernel expression, over a0 and a1."""


def result_dtype(result: str, dtype: DType) -> DType:
    """The result dtype of a ufunc over this dtype."""
    if result == "bool":
        return bool_
    if result == "real" and dtype.kind == "complex":
        return float32 if dtype is complex64 else float64
    return dtype


def _sign(value: Any, out: Any) -> None:
    np.sign(value, out=out)
    if value.dtype.kind in "fc":
        # The sign of NaN is NaN; NumPy returns a complex one that is half NaN.
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
    infinite = np.isinf(real) & ~np.isfinite(imaginary)
    on_axis = imaginary == 0
    # (exp(a) - 1) cos b + cos b - 1, and cos b - 1 = -2 sin(b / 2)^2 without cancellation.
    part = np.expm1(real) * np.cos(imaginary) - 2 * np.square(np.sin(imaginary / 2))
    part = np.where(on_axis, np.expm1(real) + 0.0, part)
    other = np.where(on_axis, imaginary, np.exp(real) * np.sin(imaginary))
    # Where the angle is undefined the magnitude is not: it is 0 or infinite.
    out.real = np.where(infinite, np.expm1(real), part)
    out.imag = np.where(infinite, np.where(real < 0, 0.0, np.nan), other)


def _tanh(value: Any, out: Any) -> None:
    if value.dtype.kind != "c":
        np.tanh(value, out=out)
        return
    # Where the real part is infinite the zero has the sign of the imaginary part; NumPy gives it
    # the sign of sin(2 b), as C does.
    at_infinity = np.isinf(value.real) & np.isfinite(value.imag)
    zero = np.copysign(0.0, value.imag) if at_infinity.any() else None
    np.tanh(value, out=out)
    if zero is not None:
        np.copyto(out.imag, zero, where=at_infinity)


def _floor_divide(left: Any, right: Any, out: Any) -> None:
    if out.dtype.kind != "f":
        np.floor_divide(left, right, out=out)
        return
    # Where one operand is infinite the standard's result is the quotient: an infinity or a signed
    # zero. Python's, which NumPy follows, is NaN or -1.
    one_infinite = np.isinf(left) ^ np.isinf(right)
    quotient = np.divide(left, right) if one_infinite.any() else None
    np.floor_divide(left, right, out=out)
    if quotient is not None:
        np.copyto(out, quotient, where=one_infinite)


def _trunc(value: Any, out: Any) -> None:
    np.copyto(out, value) if value.dtype.kind in "iu" else np.trunc(value, out=out)


def _ceil(value: Any, out: Any) -> None:
    np.copyto(out, value) if value.dtype.kind in "iu" else np.ceil(value, out=out)


def _floor(value: Any, out: Any) -> None:
    np.copyto(out, value) if value.dtype.kind in "iu" else np.floor(value, out=out)


def _round(value: Any, out: Any) -> None:
    np.copyto(out, np.round(value))


_UNARY: Final[dict[str, Ufunc]] = {
    "abs": Ufunc(np.absolute, NUMERIC, "real"),
    "acos": Ufunc(np.arccos, FLOATING),
    "acosh": Ufunc(np.arccosh, FLOATING),
    "asin": Ufunc(np.arcsin, FLOATING),
    "asinh": Ufunc(np.arcsinh, FLOATING),
    "atan": Ufunc(np.arctan, FLOATING),
    "atanh": Ufunc(np.arctanh, FLOATING),
    "bitwise_invert": Ufunc(np.invert, _BITS),
    "ceil": Ufunc(_ceil, REAL),
    "conj": Ufunc(np.conjugate, NUMERIC),
    "cos": Ufunc(np.cos, FLOATING),
    "cosh": Ufunc(np.cosh, FLOATING),
    "exp": Ufunc(np.exp, FLOATING),
    "expm1": Ufunc(_expm1, FLOATING),
    "floor": Ufunc(_floor, REAL),
    "imag": Ufunc(_imag, ("complex",), "real"),
    "isfinite": Ufunc(np.isfinite, NUMERIC, "bool"),
    "isinf": Ufunc(np.isinf, NUMERIC, "bool"),
    "isnan": Ufunc(np.isnan, NUMERIC, "bool"),
    "log": Ufunc(np.log, FLOATING),
    "log10": Ufunc(np.log10, FLOATING),
    "log1p": Ufunc(np.log1p, FLOATING),
    "log2": Ufunc(np.log2, FLOATING),
    "logical_not": Ufunc(np.logical_not, ("bool",)),
    "negative": Ufunc(np.negative, NUMERIC),
    "positive": Ufunc(np.positive, NUMERIC),
    "real": Ufunc(_real, NUMERIC, "real"),
    "reciprocal": Ufunc(np.reciprocal, FLOATING),
    "round": Ufunc(_round, NUMERIC),
    "sign": Ufunc(_sign, NUMERIC),
    "signbit": Ufunc(np.signbit, _FLOAT, "bool"),
    "sin": Ufunc(np.sin, FLOATING),
    "sinh": Ufunc(np.sinh, FLOATING),
    "sqrt": Ufunc(np.sqrt, FLOATING),
    "square": Ufunc(np.square, NUMERIC),
    "tan": Ufunc(np.tan, FLOATING),
    "tanh": Ufunc(_tanh, FLOATING),
    "trunc": Ufunc(_trunc, REAL),
}

_BINARY: Final[dict[str, Ufunc]] = {
    "add": Ufunc(np.add, NUMERIC),
    "atan2": Ufunc(np.arctan2, _FLOAT),
    "bitwise_and": Ufunc(np.bitwise_and, _BITS),
    "bitwise_left_shift": Ufunc(np.left_shift, INTEGRAL),
    "bitwise_or": Ufunc(np.bitwise_or, _BITS),
    "bitwise_right_shift": Ufunc(np.right_shift, INTEGRAL),
    "bitwise_xor": Ufunc(np.bitwise_xor, _BITS),
    "copysign": Ufunc(np.copysign, _FLOAT),
    "divide": Ufunc(np.divide, FLOATING),
    "equal": Ufunc(np.equal, ANY, "bool"),
    "floor_divide": Ufunc(_floor_divide, REAL),
    "greater": Ufunc(np.greater, REAL, "bool"),
    "greater_equal": Ufunc(np.greater_equal, REAL, "bool"),
    "hypot": Ufunc(np.hypot, _FLOAT),
    "less": Ufunc(np.less, REAL, "bool"),
    "less_equal": Ufunc(np.less_equal, REAL, "bool"),
    "logaddexp": Ufunc(np.logaddexp, _FLOAT),
    "logical_and": Ufunc(np.logical_and, ("bool",)),
    "logical_or": Ufunc(np.logical_or, ("bool",)),
    "logical_xor": Ufunc(np.logical_xor, ("bool",)),
    "maximum": Ufunc(np.maximum, REAL),
    "minimum": Ufunc(np.minimum, REAL),
    "multiply": Ufunc(np.multiply, NUMERIC),
    "nextafter": Ufunc(np.nextafter, _FLOAT),
    "not_equal": Ufunc(np.not_equal, ANY, "bool"),
    "pow": Ufunc(np.power, NUMERIC),
    "remainder": Ufunc(np.remainder, REAL),
    "subtract": Ufunc(np.subtract, NUMERIC),
}

_RESERVED: Final = frozenset(
    {
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "exp",
        "expm1",
        "floor",
        "hypot",
        "isfinite",
        "isinf",
        "isnan",
        "log",
        "log10",
        "log1p",
        "log2",
        "nextafter",
        "pow",
        "remainder",
        "round",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    }
)
"""Names that CUDA C++ defines already; `expressions.cuh` appends _ to them."""

_OF_REAL: Final = {"conj": "positive", "real": "positive", "imag": ""}
"""What functions of complex dtypes are for real ones."""


def _with_expressions(ufuncs: dict[str, Ufunc], operands: str) -> dict[str, Ufunc]:
    def expression(name: str) -> str:
        kernel = _OF_REAL.get(name, f"{name}_" if name in _RESERVED else name)
        return f"{kernel}({operands})" if kernel else ""

    return {name: ufunc._replace(expression=expression(name)) for name, ufunc in ufuncs.items()}


UNARY: Final = _with_expressions(_UNARY, "a0")
BINARY: Final = _with_expressions(_BINARY, "a0,a1")
