"""Linear layers."""

from __future__ import annotations

from typing import Final

from assay._native import ACTIVATIONS, FORMATS
from assay.errors import DTypeError, InputError, ShapeError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.operands import CODES, call, check, check_given, nbytes, result
from assay.ops.weights import Weights
from assay.runtime import dtypes
from assay.runtime.array import Array

GATED_ACTIVATIONS: Final = ("swiglu", "geglu_tanh", "geglu", "swiglu_clamped")
"""Activations that halve the outputs; the others are elementwise."""

_ELEMENTWISE: Final = tuple(
    name for name in ACTIVATIONS if name not in ("none", *GATED_ACTIVATIONS)
)


def activation_code(operation: str, name: str | None) -> int:
    """The code of an elementwise activation in calls."""
    if name is not None and name not in _ELEMENTWISE:
        raise InputError(
            f'{operation}: expected an activation, got "{name}"',
            f"one of: {', '.join(_ELEMENTWISE)}, or None",
        )
    return ACTIVATIONS[name or "none"]


def linear(
    x: Array | Weights,
    weights: Weights,
    *,
    norm: Array | None = None,
    epsilon: float = 0.0,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
    batch_invariant: bool = False,
) -> Array:
    """activation(x @ weights.T + bias) + residual.

    Rows of `x` are tokens. With `norm`, they pass through `rms_norm` of this weight and `epsilon`
    first. The activation "swiglu" takes the first half of the outputs as gates of the second, as
    `swiglu` does; "geglu" and "geglu_tanh" are the same with GELU, and "swiglu_clamped" is that of
    gpt-oss. On a GPU, norm, GEMV and epilogue of a few rows are one kernel, which prefetches
    weights before the previous kernel completes (programmatic dependent launch): weights must be
    uploaded, or the kernel that writes them synchronized with, before this call.

    `batch_invariant` makes a row's result independent of the other rows, which costs speed at many
    rows. On a GPU, `x` may itself be packed as fp8 if the weights are fp8; the result is then
    bfloat16 or of the type of `out`.
    """
    if not isinstance(weights, Weights):
        raise DTypeError(
            f"linear: expected packed weights, got {type(weights).__name__}",
            "make them with assay.ops.pack",
        )
    outputs, inputs = weights.shape
    if isinstance(x, Weights):
        _check_fp8(x, weights)
    else:
        check("linear", "x", x, (None, inputs))
    rows = x.shape[0]
    check_given("linear", "norm", norm, (inputs,))
    if not epsilon >= 0:
        raise InputError(f"linear: expected an epsilon of 0 or more, got {epsilon}")
    check_given("linear", "bias", bias, (outputs,))
    check_given("linear", "residual", residual, (rows, outputs))
    gated = activation in GATED_ACTIVATIONS
    if gated and (outputs % 2 or residual is not None):
        raise ShapeError(
            f"linear: expected an even number of outputs and no residual for {activation}, got "
            f"{outputs} outputs {'and' if residual is not None else 'without'} a residual"
        )
    code = (
        ACTIVATIONS[activation] if gated and activation else activation_code("linear", activation)
    )
    width = outputs // 2 if gated else outputs
    if x.device is not weights.device:
        raise ShapeError(
            f"linear: expected x on the weights' device {weights.device}, got {x.device}"
        )
    # Results of 16-bit operands may be single precision, as logits are.
    is_float32 = out is not None and out.dtype is dtypes.float32
    dtype = dtypes.float32 if is_float32 else x.dtype or dtypes.bfloat16
    out = result("linear", x.device, out, (rows, width), dtype)
    invariance = x.device.capabilities.invariant_gemm_rows if batch_invariant else 0
    count = counting.gemm(rows, outputs, inputs, weights.element_bytes)
    more = nbytes(norm, bias, residual)
    call(
        "linear",
        [
            x.operand() if isinstance(x, Weights) else x,
            weights.operand(),
            norm,
            bias,
            residual,
            out,
        ],
        (rows, inputs, outputs, code, invariance, float(epsilon)),
        x.device,
        count + Count(0.0, more),
        label or _record_label(x, weights, out),
    )
    return out


def _check_fp8(x: Weights, weights: Weights) -> None:
    """Check packed activations: fp8, with fp8 weights."""
    if (x.format, weights.format) != ("fp8", "fp8"):
        raise DTypeError(
            f"linear: expected packed x and weights of fp8, got {x.format} and {weights.format}",
            "give x as an array",
        )
    if x.shape[1] != weights.shape[1]:
        raise ShapeError(
            f"linear: expected x of shape (any, {weights.shape[1]}), got {tuple(x.shape)}"
        )


def _record_label(x: Array | Weights, weights: Weights, out: Array) -> str:
    """The default label on a GPU: bits of weights and activations, and the result's format."""
    if not x.device.capabilities.is_gpu:
        return "linear"
    activations = 8 if isinstance(x, Weights) else 8 * x.dtype.itemsize
    short = next(name for name, code in FORMATS.items() if code == CODES[out.dtype])
    return f"linear_w{weights.bits}a{activations}_{short}"
