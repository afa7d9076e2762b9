"""Elementwise functions of one array."""

from __future__ import annotations

from collections.abc import Callable

from assay.runtime import elementwise
from assay.runtime.array import Array


def _function(name: str, meaning: str) -> Callable[[Array], Array]:
    def function(x: Array, /) -> Array:
        return elementwise.unary(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


abs = _function("abs", "The magnitude of each element.")
acos = _function("acos", "The inverse cosine, in radians.")
acosh = _function("acosh", "The inverse hyperbolic cosine.")
asin = _function("asin", "The inverse sine, in radians.")
asinh = _function("asinh", "The inverse hyperbolic sine.")
atan = _function("atan", "The inverse tangent, in radians.")
atanh = _function("atanh", "The inverse hyperbolic tangent.")
bitwise_invert = _function("bitwise_invert", "Every bit inverted.")
ceil = _function("ceil", "The least integer that is not smaller.")
conj = _function("conj", "The complex conjugate.")
cos = _function("cos", "The cosine of an angle in radians.")
cosh = _function("cosh", "The hyperbolic cosine.")
exp = _function("exp", "E to the power of each element.")
expm1 = _function("expm1", "exp(x) - 1, accurate near zero.")
floor = _function("floor", "The greatest integer that is not larger.")
imag = _function("imag", "The imaginary part.")
isfinite = _function("isfinite", "Whether an element is neither infinite nor NaN.")
isinf = _function("isinf", "Whether an element is infinite.")
isnan = _function("isnan", "Whether an element is NaN.")
log = _function("log", "The natural logarithm.")
log10 = _function("log10", "The logarithm to base 10.")
log1p = _function("log1p", "log(1 + x), accurate near zero.")
log2 = _function("log2", "The logarithm to base 2.")
logical_not = _function("logical_not", "The opposite of each truth value.")
negative = _function("negative", "Each element with its sign changed.")
positive = _function("positive", "A copy of each element.")
real = _function("real", "The real part.")
reciprocal = _function("reciprocal", "1 / x.")
round = _function("round", "The nearest integer, halves to even.")
sign = _function("sign", "-1, 0 or 1 by sign; x / abs(x) for complex numbers.")
signbit = _function("signbit", "Whether the sign bit is set, as it is for -0.0.")
sin = _function("sin", "The sine of an angle in radians.")
sinh = _function("sinh", "The hyperbolic sine.")
sqrt = _function("sqrt", "The principal square root.")
square = _function("square", "X * x.")
tan = _function("tan", "The tangent of an angle in radians.")
tanh = _function("tanh", "The hyperbolic tangent.")
trunc = _function("trunc", "The nearest integer toward zero.")
