"""Elementwise functions of one array."""

from __future__ import annotations

from assay.runtime import elementwise
from assay.runtime.array import Array


def abs(x: Array, /) -> Array:
    """The magnitude of each element."""
    return elementwise.unary("abs", x)


def acos(x: Array, /) -> Array:
    """The inverse cosine, in radians."""
    return elementwise.unary("acos", x)


def acosh(x: Array, /) -> Array:
    """The inverse hyperbolic cosine."""
    return elementwise.unary("acosh", x)


def asin(x: Array, /) -> Array:
    """The inverse sine, in radians."""
    return elementwise.unary("asin", x)


def asinh(x: Array, /) -> Array:
    """The inverse hyperbolic sine."""
    return elementwise.unary("asinh", x)


def atan(x: Array, /) -> Array:
    """The inverse tangent, in radians."""
    return elementwise.unary("atan", x)


def atanh(x: Array, /) -> Array:
    """The inverse hyperbolic tangent."""
    return elementwise.unary("atanh", x)


def bitwise_invert(x: Array, /) -> Array:
    """Every bit inverted."""
    return elementwise.unary("bitwise_invert", x)


def ceil(x: Array, /) -> Array:
    """The least integer that is not smaller."""
    return elementwise.unary("ceil", x)


def conj(x: Array, /) -> Array:
    """The complex conjugate."""
    return elementwise.unary("conj", x)


def cos(x: Array, /) -> Array:
    """The cosine of an angle in radians."""
    return elementwise.unary("cos", x)


def cosh(x: Array, /) -> Array:
    """The hyperbolic cosine."""
    return elementwise.unary("cosh", x)


def exp(x: Array, /) -> Array:
    """E to the power of each element."""
    return elementwise.unary("exp", x)


def expm1(x: Array, /) -> Array:
    """exp(x) - 1, accurate near zero."""
    return elementwise.unary("expm1", x)


def floor(x: Array, /) -> Array:
    """The greatest integer that is not larger."""
    return elementwise.unary("floor", x)


def imag(x: Array, /) -> Array:
    """The imaginary part."""
    return elementwise.unary("imag", x)


def isfinite(x: Array, /) -> Array:
    """Whether an element is neither infinite nor NaN."""
    return elementwise.unary("isfinite", x)


def isinf(x: Array, /) -> Array:
    """Whether an element is infinite."""
    return elementwise.unary("isinf", x)


def isnan(x: Array, /) -> Array:
    """Whether an element is NaN."""
    return elementwise.unary("isnan", x)


def log(x: Array, /) -> Array:
    """The natural logarithm."""
    return elementwise.unary("log", x)


def log10(x: Array, /) -> Array:
    """The logarithm to base 10."""
    return elementwise.unary("log10", x)


def log1p(x: Array, /) -> Array:
    """log(1 + x), accurate near zero."""
    return elementwise.unary("log1p", x)


def log2(x: Array, /) -> Array:
    """The logarithm to base 2."""
    return elementwise.unary("log2", x)


def logical_not(x: Array, /) -> Array:
    """The opposite of each truth value."""
    return elementwise.unary("logical_not", x)


def negative(x: Array, /) -> Array:
    """Each element with its sign changed."""
    return elementwise.unary("negative", x)


def positive(x: Array, /) -> Array:
    """A copy of each element."""
    return elementwise.unary("positive", x)


def real(x: Array, /) -> Array:
    """The real part."""
    return elementwise.unary("real", x)


def reciprocal(x: Array, /) -> Array:
    """1 / x."""
    return elementwise.unary("reciprocal", x)


def round(x: Array, /) -> Array:
    """The nearest integer, halves to even."""
    return elementwise.unary("round", x)


def sign(x: Array, /) -> Array:
    """-1, 0 or 1 by sign; x / abs(x) for complex numbers."""
    return elementwise.unary("sign", x)


def signbit(x: Array, /) -> Array:
    """Whether the sign bit is set, as it is for -0.0."""
    return elementwise.unary("signbit", x)


def sin(x: Array, /) -> Array:
    """The sine of an angle in radians."""
    return elementwise.unary("sin", x)


def sinh(x: Array, /) -> Array:
    """The hyperbolic sine."""
    return elementwise.unary("sinh", x)


def sqrt(x: Array, /) -> Array:
    """The principal square root."""
    return elementwise.unary("sqrt", x)


def square(x: Array, /) -> Array:
    """X * x."""
    return elementwise.unary("square", x)


def tan(x: Array, /) -> Array:
    """The tangent of an angle in radians."""
    return elementwise.unary("tan", x)


def tanh(x: Array, /) -> Array:
    """The hyperbolic tangent."""
    return elementwise.unary("tanh", x)


def trunc(x: Array, /) -> Array:
    """The nearest integer toward zero."""
    return elementwise.unary("trunc", x)
