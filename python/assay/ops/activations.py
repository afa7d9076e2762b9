"""Activations, SwiGLU and softmax."""

from __future__ import annotations

from assay.errors import ShapeError
from assay.ops import counting
from assay.ops.linear import activation_code
from assay.ops.operands import call, check, nbytes, result
from assay.runtime.array import Array


def swiglu(gate_up: Array, out: Array | None = None, *, label: str | None = None) -> Array:
    """SwiGLU: silu(gate) * up; a row of `gate_up` is the gate half and then the up half."""
    check("swiglu", "gate_up", gate_up, (None, None))
    rows, both = gate_up.shape
    if both % 2:
        raise ShapeError(f"swiglu: expected an even number of columns, got {both}")
    out = result("swiglu", gate_up.device, out, (rows, both // 2), gate_up.dtype)
    call(
        "swiglu",
        [gate_up, out],
        (rows, both // 2),
        gate_up.device,
        counting.memory_traffic(nbytes(gate_up, out)),
        label,
    )
    return out


def activate(x: Array, name: str, out: Array | None = None, *, label: str | None = None) -> Array:
    """silu, gelu, gelu_tanh, relu, tanh or sigmoid of each element."""
    check("activate", "x", x, None)
    code = activation_code("activate", name)
    out = result("activate", x.device, out, x.shape, x.dtype)
    call(
        "activate",
        [x, out],
        (x.size, code),
        x.device,
        counting.memory_traffic(nbytes(x, out)),
        label,
    )
    return out


def gelu(x: Array, out: Array | None = None, *, label: str | None = None) -> Array:
    """GELU: x Phi(x), with the error function."""
    return activate(x, "gelu", out, label=label or "gelu")


def tanh(x: Array, out: Array | None = None, *, label: str | None = None) -> Array:
    """The hyperbolic tangent of each element."""
    return activate(x, "tanh", out, label=label or "tanh")


def sigmoid(x: Array, out: Array | None = None, *, label: str | None = None) -> Array:
    """1 / (1 + exp(-x)) of each element."""
    return activate(x, "sigmoid", out, label=label or "sigmoid")


def softmax(x: Array, out: Array | None = None, *, label: str | None = None) -> Array:
    """The softmax along the last axis."""
    check("softmax", "x", x, None)
    if x.ndim == 0:
        raise ShapeError("softmax: expected an array with axes, got a 0-d array")
    out = result("softmax", x.device, out, x.shape, x.dtype)
    columns = x.shape[-1]
    call(
        "softmax",
        [x, out],
        (x.size // max(columns, 1), columns),
        x.device,
        counting.memory_traffic(nbytes(x, out)),
        label,
    )
    return out
