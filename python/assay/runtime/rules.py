"""The elementwise operations: NumPy's loop, the kinds each takes, and what comes out.

On a device with kernels of arrays the loop is an expression of the kernels' own table,
`kernels/array/expressions.cuh`, which has the same names; real numbers only.
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


class Elementwise(NamedTuple):
    """One elementwise operation: NumPy's loop, the kinds it takes, and what comes out."""

    loop: Callable[..., Any]
    kinds: tuple[str, ...]
    gives: str = "same"
    """same, bool, or real: the parts of a complex type"""
    expression: str = ""
    """The loop as a kernel knows it, over a0 and a1."""


def result_type(gives: str, dtype: DType) -> DType:
    """The type of what an operation on this type gives."""
    if gives == "bool":
        return bool_
    if gives == "real" and dtype.kind == "complex":
        return float32 if dtype is complex64 else float64
    return dtype


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


_UNARY: Final[dict[str, Elementwise]] = {
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

_BINARY: Final[dict[str, Elementwise]] = {
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

_TAKEN: Final = frozenset(
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
"""Names that CUDA has already, which end in _ in the kernels' table."""

_OF_REAL: Final = {"conj": "positive", "real": "positive", "imag": ""}
"""What functions of complex numbers are for real ones."""


def _with_expressions(rules: dict[str, Elementwise], operands: str) -> dict[str, Elementwise]:
    def expression(name: str) -> str:
        kernel = _OF_REAL.get(name, f"{name}_" if name in _TAKEN else name)
        return f"{kernel}({operands})" if kernel else ""

    return {name: rule._replace(expression=expression(name)) for name, rule in rules.items()}


UNARY: Final = _with_expressions(_UNARY, "a0")
BINARY: Final = _with_expressions(_BINARY, "a0,a1")
