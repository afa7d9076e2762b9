"""Elementwise functions of two operands: arrays, or an array and a Python number."""

from __future__ import annotations

from assay.runtime import allocation, dtypes, elementwise, elementwise_kernels, interop, transfer
from assay.runtime.array import Array, Scalar
from assay.runtime.layout import broadcast_shapes


def add(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The sum."""
    return elementwise.require(elementwise.binary("add", x1, x2), "add", x1, x2)


def atan2(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The angle of the point (x2, x1), in radians."""
    return elementwise.require(elementwise.binary("atan2", x1, x2), "atan2", x1, x2)


def bitwise_and(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The bits set in both."""
    return elementwise.require(elementwise.binary("bitwise_and", x1, x2), "bitwise_and", x1, x2)


def bitwise_left_shift(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """x1 << x2."""
    return elementwise.require(
        elementwise.binary("bitwise_left_shift", x1, x2), "bitwise_left_shift", x1, x2
    )


def bitwise_or(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The bits set in either."""
    return elementwise.require(elementwise.binary("bitwise_or", x1, x2), "bitwise_or", x1, x2)


def bitwise_right_shift(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """x1 >> x2, an arithmetic shift."""
    return elementwise.require(
        elementwise.binary("bitwise_right_shift", x1, x2), "bitwise_right_shift", x1, x2
    )


def bitwise_xor(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The bits set in one of both."""
    return elementwise.require(elementwise.binary("bitwise_xor", x1, x2), "bitwise_xor", x1, x2)


def copysign(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The magnitude of x1 with the sign of x2."""
    return elementwise.require(elementwise.binary("copysign", x1, x2), "copysign", x1, x2)


def divide(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The quotient."""
    return elementwise.require(elementwise.binary("divide", x1, x2), "divide", x1, x2)


def equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether both are equal."""
    return elementwise.require(elementwise.binary("equal", x1, x2), "equal", x1, x2)


def floor_divide(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The quotient rounded down."""
    return elementwise.require(elementwise.binary("floor_divide", x1, x2), "floor_divide", x1, x2)


def greater(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether x1 is larger."""
    return elementwise.require(elementwise.binary("greater", x1, x2), "greater", x1, x2)


def greater_equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether x1 is not smaller."""
    return elementwise.require(elementwise.binary("greater_equal", x1, x2), "greater_equal", x1, x2)


def hypot(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The length of the hypotenuse, without overflow on the way."""
    return elementwise.require(elementwise.binary("hypot", x1, x2), "hypot", x1, x2)


def less(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether x1 is smaller."""
    return elementwise.require(elementwise.binary("less", x1, x2), "less", x1, x2)


def less_equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether x1 is not larger."""
    return elementwise.require(elementwise.binary("less_equal", x1, x2), "less_equal", x1, x2)


def logaddexp(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """log(exp(x1) + exp(x2)), without overflow on the way."""
    return elementwise.require(elementwise.binary("logaddexp", x1, x2), "logaddexp", x1, x2)


def logical_and(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether both hold."""
    return elementwise.require(elementwise.binary("logical_and", x1, x2), "logical_and", x1, x2)


def logical_or(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether either holds."""
    return elementwise.require(elementwise.binary("logical_or", x1, x2), "logical_or", x1, x2)


def logical_xor(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether one of both holds."""
    return elementwise.require(elementwise.binary("logical_xor", x1, x2), "logical_xor", x1, x2)


def maximum(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The larger; NaN where either is NaN."""
    return elementwise.require(elementwise.binary("maximum", x1, x2), "maximum", x1, x2)


def minimum(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The smaller; NaN where either is NaN."""
    return elementwise.require(elementwise.binary("minimum", x1, x2), "minimum", x1, x2)


def multiply(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The product."""
    return elementwise.require(elementwise.binary("multiply", x1, x2), "multiply", x1, x2)


def nextafter(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The next number from x1 toward x2."""
    return elementwise.require(elementwise.binary("nextafter", x1, x2), "nextafter", x1, x2)


def not_equal(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Whether both differ."""
    return elementwise.require(elementwise.binary("not_equal", x1, x2), "not_equal", x1, x2)


def pow(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """x1 to the power of x2."""
    return elementwise.require(elementwise.binary("pow", x1, x2), "pow", x1, x2)


def remainder(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """What is left of x1 after division by x2, with the sign of x2."""
    return elementwise.require(elementwise.binary("remainder", x1, x2), "remainder", x1, x2)


def subtract(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """The difference."""
    return elementwise.require(elementwise.binary("subtract", x1, x2), "subtract", x1, x2)


def clip(x: Array, /, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    """Each element brought between two bounds, which take the type of `x`."""
    dtypes.require_kind(x.dtype, dtypes.REAL, "clip")
    lower, upper = _bound(x, min), _bound(x, max)
    bounds = [bound for bound in (lower, upper) if bound is not None]
    shape = broadcast_shapes("clip", x.shape, *(bound.shape for bound in bounds))
    device = allocation.common_device("clip", [x, *bounds])
    if elementwise_kernels.supports(device, len(shape), [x.dtype]):
        text = "a0" if lower is None else "maximum(a0,a1)"
        if upper is not None:
            text = f"minimum({text},a{len(bounds)})"
        return elementwise_kernels.compute(
            "clip", text, x.dtype, [x, *bounds], device, shape, x.dtype
        )
    result = transfer.copy(x, "clip") if shape == x.shape else None
    if result is None:
        result = allocation.empty(x.device, shape, x.dtype, "clip")
        transfer.copy_into(result, x, "clip")
    if lower is not None:
        result = elementwise.in_place("maximum", result, lower)
    if upper is not None:
        result = elementwise.in_place("minimum", result, upper)
    clipped: Array = result
    return clipped


def _bound(x: Array, bound: Array | float | None) -> Array | None:
    if bound is None:
        return None
    if isinstance(bound, Array):
        return bound if bound.dtype is x.dtype else transfer.astype(bound, x.dtype, "clip")
    bound_dtype = dtypes.scalar_dtype(bound, x.dtype, "clip")
    return interop.asarray(bound, bound_dtype, x.device, None)
