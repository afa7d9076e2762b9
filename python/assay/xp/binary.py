"""Elementwise functions of two operands: arrays, or an array and a Python number."""

from __future__ import annotations

from collections.abc import Callable

from assay.runtime import allocation, dtypes, elementwise, elementwise_kernels, interop, transfer
from assay.runtime.array import Array, Scalar
from assay.runtime.layout import broadcast_shapes


def _function(name: str, meaning: str) -> Callable[[Array | Scalar, Array | Scalar], Array]:
    def function(x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
        return elementwise.require(elementwise.binary(name, x1, x2), name, x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


add = _function("add", "The sum.")
atan2 = _function("atan2", "The angle of the point (x2, x1), in radians.")
bitwise_and = _function("bitwise_and", "The bits set in both.")
bitwise_left_shift = _function("bitwise_left_shift", "x1 << x2.")
bitwise_or = _function("bitwise_or", "The bits set in either.")
bitwise_right_shift = _function("bitwise_right_shift", "x1 >> x2, an arithmetic shift.")
bitwise_xor = _function("bitwise_xor", "The bits set in one of both.")
copysign = _function("copysign", "The magnitude of x1 with the sign of x2.")
divide = _function("divide", "The quotient.")
equal = _function("equal", "Whether both are equal.")
floor_divide = _function("floor_divide", "The quotient rounded down.")
greater = _function("greater", "Whether x1 is larger.")
greater_equal = _function("greater_equal", "Whether x1 is not smaller.")
hypot = _function("hypot", "The length of the hypotenuse, without overflow on the way.")
less = _function("less", "Whether x1 is smaller.")
less_equal = _function("less_equal", "Whether x1 is not larger.")
logaddexp = _function("logaddexp", "log(exp(x1) + exp(x2)), without overflow on the way.")
logical_and = _function("logical_and", "Whether both hold.")
logical_or = _function("logical_or", "Whether either holds.")
logical_xor = _function("logical_xor", "Whether one of both holds.")
maximum = _function("maximum", "The larger; NaN where either is NaN.")
minimum = _function("minimum", "The smaller; NaN where either is NaN.")
multiply = _function("multiply", "The product.")
nextafter = _function("nextafter", "The next number from x1 toward x2.")
not_equal = _function("not_equal", "Whether both differ.")
pow = _function("pow", "x1 to the power of x2.")
remainder = _function("remainder", "What is left of x1 after division by x2, with the sign of x2.")
subtract = _function("subtract", "The difference.")


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
