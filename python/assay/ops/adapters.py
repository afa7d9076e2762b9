"""The two products of LoRA adapters where a step has few rows: each row's index chooses its factors."""

from __future__ import annotations

from assay._native import ACTIVATIONS
from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.linear import GATED_ACTIVATIONS, activation_code
from assay.ops.operands import I32, call, check, check_given, result
from assay.ops.weights import Weights
from assay.runtime.array import Array

MOST_FACTORS = 256
"""Elements of B that a thread of `lora_expand` holds: the rank, twice of it where outputs are gated."""


def expands(rank: int, activation: str | None) -> bool:
    """Whether `lora_expand` has a kernel for factors of this rank."""
    return rank % 8 == 0 and rank * (2 if activation in GATED_ACTIVATIONS else 1) <= MOST_FACTORS


def lora_shrink(
    x: Array,
    a: Weights,
    adapters: Array,
    *,
    adapters_count: int,
    norm: Array | None = None,
    epsilon: float = 0.0,
    adapters_ready: bool = False,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """A x of each row's adapter; 0 for adapter 0, which is none.

    `a` has the factors of `adapters_count` adapters, one below the other, and `adapters` the index of
    each row. With `norm`, rows pass through `rms_norm` first. `adapters_ready` states that `adapters`
    was there before the preceding operation began. Only devices whose capabilities have
    `fused_adapters_max_rows` implement it.
    """
    name = "lora_shrink"
    rows, inputs = check(name, "x", x, (None, a.shape[1])).shape
    rank = _outputs(name, a, adapters_count)
    check(name, "adapters", adapters, (rows,), I32)
    check_given(name, "norm", norm, (inputs,))
    if not epsilon >= 0:
        raise InputError(f"{name}: expected an epsilon of 0 or more, got {epsilon}")
    out = result(name, x.device, out, (rows, rank), x.dtype)
    call(
        name,
        [x, norm, a.operand(), adapters, out],
        (rows, inputs, rank, adapters_count, int(adapters_ready), float(epsilon)),
        x.device,
        counting.gemm(rows, rank, inputs, a.element_bytes),
        label,
    )
    return out


def lora_expand(
    product: Array,
    low: Array,
    b: Weights,
    adapters: Array,
    *,
    adapters_count: int,
    activation: str | None = None,
    adapters_ready: bool = False,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """activation(product + B low) with the B of each row's adapter; nothing is added for adapter 0.

    Arguments are as those of `lora_shrink`; gated activations are those of `linear`.
    """
    name = "lora_expand"
    outputs = _outputs(name, b, adapters_count)
    rows, rank = check(name, "product", product, (None, outputs)).shape[0], b.shape[1]
    check(name, "low", low, (rows, rank), (product.dtype,))
    check(name, "adapters", adapters, (rows,), I32)
    code, width = _activation(name, activation, outputs)
    out = result(name, product.device, out, (rows, width), product.dtype)
    call(
        name,
        [product, low, b.operand(), adapters, out],
        (rows, outputs, rank, adapters_count, code, int(adapters_ready)),
        product.device,
        counting.gemm(rows, outputs, rank, b.element_bytes),
        label,
    )
    return out


def lora_linear(
    x: Array,
    weights: Weights,
    low: Array,
    b: Weights,
    adapters: Array,
    *,
    adapters_count: int,
    norm: Array | None = None,
    epsilon: float = 0.0,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """`linear` of few rows with the second product of each row's adapter, before the activation.

    Arguments are those of `linear` and `lora_expand`; `adapters` was there before the preceding operation
    began. A residual has no activation beside it.
    """
    name = "lora_linear"
    rows, inputs = check(name, "x", x, (None, weights.shape[1])).shape
    outputs = _outputs(name, b, adapters_count)
    if weights.shape[0] != outputs:
        raise ShapeError(f"{name}: expected b of {weights.shape[0]} outputs, got {outputs}")
    check(name, "low", low, (rows, b.shape[1]), (x.dtype,))
    check(name, "adapters", adapters, (rows,), I32)
    check_given(name, "norm", norm, (inputs,))
    check_given(name, "bias", bias, (outputs,))
    check_given(name, "residual", residual, (rows, outputs))
    if residual is not None and activation is not None:
        raise InputError(f"{name}: expected no activation beside a residual, got {activation}")
    code, width = _activation(name, activation, outputs)
    out = result(name, x.device, out, (rows, width), x.dtype)
    call(
        name,
        [x, weights.operand(), norm, bias, residual, low, b.operand(), adapters, out],
        (rows, inputs, outputs, code, 0, b.shape[1], adapters_count, float(epsilon)),
        x.device,
        counting.gemm(rows, outputs, inputs, weights.element_bytes)
        + counting.gemm(rows, outputs, b.shape[1], b.element_bytes),
        label,
    )
    return out


def _activation(name: str, activation: str | None, outputs: int) -> tuple[int, int]:
    """The code of an activation, and how many outputs it leaves."""
    if activation is None or activation not in GATED_ACTIVATIONS:
        return activation_code(name, activation), outputs
    if outputs % 2:
        raise ShapeError(f"{name}: expected an even number of outputs, got {outputs}")
    return ACTIVATIONS[activation], outputs // 2


def _outputs(name: str, factors: Weights, adapters_count: int) -> int:
    """The rows of the factors of one adapter."""
    if adapters_count < 1 or factors.shape[0] % adapters_count:
        raise ShapeError(
            f"{name}: expected factors in multiples of {adapters_count} adapters, "
            f"got {factors.shape[0]} rows"
        )
    return factors.shape[0] // adapters_count
