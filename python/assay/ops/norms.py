"""RMSNorm and LayerNorm, optionally fused with the residual addition."""

from __future__ import annotations

from assay.errors import InputError
from assay.ops import counting
from assay.ops.operands import call, check, check_given, nbytes, result
from assay.runtime.array import Array


def _check(operation: str, x: Array, weight: Array, epsilon: float, residual: Array | None) -> None:
    check(operation, "x", x, (None, None))
    check(operation, "weight", weight, (x.shape[1],))
    check_given(operation, "residual", residual, x.shape)
    if not epsilon >= 0:
        raise InputError(f"{operation}: expected an epsilon of 0 or more, got {epsilon}")


def rms_norm(
    x: Array,
    weight: Array,
    epsilon: float,
    *,
    residual: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """RMSNorm: each row divided by its root mean square, times `weight`.

    With a residual, `x` is first added to it in place, and the sum is normalized.
    """
    _check("rms_norm", x, weight, epsilon, residual)
    out = result("rms_norm", x.device, out, x.shape, x.dtype)
    call(
        "rms_norm",
        [x, weight, residual, out],
        (*x.shape, float(epsilon)),
        x.device,
        counting.memory_traffic(nbytes(x, weight, residual, residual, out)),
        label,
    )
    return out


def layer_norm(
    x: Array,
    weight: Array,
    bias: Array | None,
    epsilon: float,
    *,
    residual: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """LayerNorm: (row - mean) / standard deviation * `weight` + `bias`.

    With a residual, `x` is first added to it in place, and the sum is normalized.
    """
    _check("layer_norm", x, weight, epsilon, residual)
    check_given("layer_norm", "bias", bias, (x.shape[1],))
    out = result("layer_norm", x.device, out, x.shape, x.dtype)
    call(
        "layer_norm",
        [x, weight, bias, residual, out],
        (*x.shape, float(epsilon)),
        x.device,
        counting.memory_traffic(nbytes(x, weight, bias, residual, residual, out)),
        label,
    )
    return out
