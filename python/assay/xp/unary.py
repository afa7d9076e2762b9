"""Elementwise functions of one array."""

from __future__ import annotations

from assay.runtime import operators
from assay.runtime.array import Array


def abs(x: Array, /) -> Array:
    """The magnitude of each element."""
    return operators.unary("abs", x)


def acos(x: Array, /) -> Array:
    """The inverse cosine, in radians."""
    return operators.unary("acos", x)


def acosh(x: Array, /) -> Array:
    """The inverse hyperbolic cosine."""
    return operators.unary("acosh", x)


def asin(x: Array, /) -> Array:
    """The inverse sine, in radians."""
    return operators.unary("asin", x)


def asinh(x: Array, /) -> Array:
    """The inverse hyperbolic sine."""
    return operators.unary("asinh", x)


def atan(x: Array, /) -> Array:
    """The inverse tangent, in radians."""
    return operators.unary("atan", x)


def atanh(x: Array, /) -> Array:
    """The inverse hyperbolic tangent."""
    return operators.unary("atanh", x)


def bitwise_invert(x: Array, /) -> Array:
    """Every bit inverted."""
    return operators.unary("bitwise_invert", x)


def ceil(x: Array, /) -> Array:
    """The least integer that is not smaller."""
    return operators.unary("ceil", x)


def conj(x: Array, /) -> Array:
    """The complex conjugate."""
    return operators.unary("conj", x)


def cos(x: Array, /) -> Array:
    """The cosine of an angle in radians."""
    return operators.unary("cos", x)


def cosh(x: Array, /) -> Array:
    """The hyperbolic cosine."""
    return operators.unary("cosh", x)


def exp(x: Array, /) -> Array:
    """E to the power of each element."""
    return operators.unary("exp", x)


def expm1(x: Array, /) -> Array:
    """exp(x) - 1, accurate near zero."""
    return operators.unary("expm1", x)


def floor(x: Array, /) -> Array:
    """The greatest integer that is not larger."""
    return operators.unary("floor", x)


def imag(x: Array, /) -> Array:
    """The imaginary part."""
    return operators.unary("imag", x)


def isfinite(x: Array, /) -> Array:
    """Whether an element is neither infinite nor NaN."""
    return operators.unary("isfinite", x)


def isinf(x: Array, /) -> Array:
    """Whether an element is infinite."""
    return operators.unary("isinf", x)


def isnan(x: Array, /) -> Array:
    """Whether an element is NaN."""
    return operators.unary("isnan", x)


def log(x: Array, /) -> Array:
    """The natural logarithm."""
    return operators.unary("log", x)


def log10(x: Array, /) -> Array:
    """The logarithm to base 10."""
    return operators.unary("log10", x)


def log1p(x: Array, /) -> Array:
    """log(1 + x), accurate near zero."""
    return operators.unary("log1p", x)


def log2(x: Array, /) -> Array:
    """The logarithm to base 2."""
    return operators.unary("log2", x)


def logical_not(x: Array, /) -> Array:
    """The opposite of each truth value."""
    return operators.unary("logical_not", x)


def negative(x: Array, /) -> Array:
    """Each element with its sign changed."""
    return operators.unary("negative", x)


def positive(x: Array, /) -> Array:
    """A copy of each element."""
    return operators.unary("positive", x)


def real(x: Array, /) -> Array:
    """The real part."""
    return operators.unary("real", x)


def reciprocal(x: Array, /) -> Array:
    """1 / x."""
    return operators.unary("reciprocal", x)


def round(x: Array, /) -> Array:
    """The nearest integer, halves to even."""
    return operators.unary("round", x)


def sign(x: Array, /) -> Array:
    """-1, 0 or 1 by sign; x / abs(x) for complex numbers."""
    return operators.unary("sign", x)


def signbit(x: Array, /) -> Array:
    """Whether the sign bit is set, as it is for -0.0."""
    return operators.unary("signbit", x)


def sin(x: Array, /) -> Array:
    """The sine of an angle in radians."""
    return operators.unary("sin", x)


def sinh(x: Array, /) -> Array:
    """The hyperbolic sine."""
    return operators.unary("sinh", x)


def sqrt(x: Array, /) -> Array:
    """The principal square root."""
    return operators.unary("sqrt", x)


def square(x: Array, /) -> Array:
    """X * x."""
    return operators.unary("square", x)


def tan(x: Array, /) -> Array:
    """The tangent of an angle in radians."""
    return operators.unary("tan", x)


def tanh(x: Array, /) -> Array:
    """The hyperbolic tangent."""
    return operators.unary("tanh", x)


def trunc(x: Array, /) -> Array:
    """The nearest integer toward zero."""
    return operators.unary("trunc", x)
