"""Linear layers."""

from __future__ import annotations

from typing import Final

from assay.errors import DTypeError, InputError, ShapeError
from assay.ops import counting
from assay.ops.calling import call, check, result
from assay.ops.counting import Count
from assay.ops.weights import Weights
from assay.runtime import dtypes
from assay.runtime.array import Array

ACTIVATIONS: Final = {None: 0, "silu": 1, "gelu": 2, "gelu_tanh": 3, "relu": 4}
"""Activations and their numbers in calls."""


def activation_code(operation: str, name: str | None) -> int:
    """The number of an activation."""
    if name not in ACTIVATIONS:
        known = ", ".join(str(each) for each in ACTIVATIONS if each)
        raise InputError(
            f'{operation}: expected an activation, got "{name}"', f"one of: {known}, or None"
        )
    return ACTIVATIONS[name]


def linear(
    x: Array,
    weights: Weights,
    *,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
    invariant: bool = False,
) -> Array:
    """The activation of `x` times the transposed weights plus `bias`, plus `residual`.

    Rows of `x` are tokens. Products with quantised weights give a row the same result whatever
    rows are beside it; with dense ones only if `invariant` is asked for, which costs speed at
    many rows.
    """
    if not isinstance(weights, Weights):
        raise DTypeError(
            f"linear: expected packed weights, got {type(weights).__name__}",
            "make them with assay.ops.pack",
        )
    outputs, inputs = weights.shape
    check("linear", "x", x, (None, inputs))
    rows = x.shape[0]
    if bias is not None:
        check("linear", "bias", bias, (outputs,))
    if residual is not None:
        check("linear", "residual", residual, (rows, outputs))
    code = activation_code("linear", activation)
    if x.device is not weights.device:
        raise ShapeError(
            f"linear: expected x on the weights' device {weights.device}, got {x.device}"
        )
    # Products of halves may be kept in single precision, as logits are.
    wide = out is not None and out.dtype is dtypes.float32
    out = result("linear", x.device, out, (rows, outputs), dtypes.float32 if wide else x.dtype)
    count = counting.product(rows, outputs, inputs, weights.element_bytes)
    more = (0 if bias is None else bias.nbytes) + (0 if residual is None else residual.nbytes)
    call(
        "linear",
        [
            ("x", x),
            ("weights", weights.operand()),
            ("bias", bias),
            ("residual", residual),
            ("out", out),
        ],
        (rows, inputs, outputs, code, int(invariant)),
        x.device,
        count + Count(0.0, more),
        label,
    )
    return out
