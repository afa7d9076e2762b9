"""Fused layers of an Evoformer block (Jumper et al. 2021): over pairs of residues and over alignments."""

from __future__ import annotations

import math

from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.linear import activation_code
from assay.ops.operands import call, check, check_given, nbytes, result
from assay.runtime.array import Array

LayerNormWeights = tuple[Array, Array]
"""Weight and bias of a LayerNorm."""
_PARTS = 4
"""Of a place of `gated_attention`: queries, keys, values, gates."""


def channel_projection(
    x: Array,
    norm: LayerNormWeights,
    weights: Array,
    gates: Array | None = None,
    *,
    mask: Array | None = None,
    transposed: bool = False,
    epsilon: float = 1e-5,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """LayerNorm and gated projections of a plane of places, written channel by channel, in one pass.

    x is (batch, rows, columns, inputs), the result (batch, outputs, rows, columns), with rows and columns
    swapped where `transposed`: LayerNorm(x) @ weights.T * sigmoid(LayerNorm(x) @ gates.T) * mask. The norm
    is that of the inputs of a place, and the mask is (batch, rows, columns). On a GPU, rows times columns
    are a multiple of 8, inputs and outputs multiples of 64; its kernel was emulated, no GPU has run it.

    >>> import assay.xp as xp
    >>> x = xp.asarray([[[[1.0, 3.0], [5.0, 1.0]]]], dtype=xp.float32)
    >>> norm = xp.ones((2,), dtype=xp.float32), xp.zeros((2,), dtype=xp.float32)
    >>> channel_projection(x, norm, xp.asarray([[2.0, 0.0]], dtype=xp.float32), epsilon=0.0).tolist()
    [[[[-2.0, 2.0]]]]
    """
    name = "channel_projection"
    batch, rows, columns, inputs = check(name, "x", x, (None,) * 4).shape
    outputs = check(name, "weights", weights, (None, inputs), (x.dtype,)).shape[0]
    check_given(name, "gates", gates, (outputs, inputs), (x.dtype,))
    check_given(name, "mask", mask, (batch, rows, columns), (x.dtype,))
    _check_norm(name, "norm", norm, inputs, x, epsilon)
    plane = (columns, rows) if transposed else (rows, columns)
    out = result(name, x.device, out, (batch, outputs, *plane), x.dtype)
    factors = 1 if gates is None else 2
    flops = factors * _product(batch * rows * columns, outputs, inputs)
    call(
        name,
        [x, *norm, weights, gates, mask, out],
        (batch, rows, columns, inputs, outputs, int(transposed), float(epsilon)),
        x.device,
        Count(flops, nbytes(x, *norm, weights, gates, mask, out)),
        label,
    )
    return out


def triangle_update(
    sums: Array,
    pairs: Array,
    *,
    sum_norm: LayerNormWeights,
    pair_norm: LayerNormWeights,
    gates: Array,
    weights: Array,
    residual: bool = False,
    epsilon: float = 1e-5,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """The end of triangle multiplication: from sums channel by channel to the update of pairs, in one pass.

    (LayerNorm(sums) * sigmoid(LayerNorm(pairs) @ gates.T)) @ weights.T, plus the pairs with `residual`.
    Sums are (batch, hidden, rows, columns), pairs (batch, rows, columns, channels), gates (hidden,
    channels), weights (channels, hidden); sums are normalized over their channels. On a GPU, rows times
    columns are a multiple of 8, hidden and channels multiples of 128; its kernel was emulated, no GPU has run
    it.
    """
    name = "triangle_update"
    batch, rows, columns, channels = check(name, "pairs", pairs, (None,) * 4).shape
    dtype = (pairs.dtype,)
    hidden = check(name, "sums", sums, (batch, None, rows, columns), dtype).shape[1]
    check(name, "gates", gates, (hidden, channels), dtype)
    check(name, "weights", weights, (channels, hidden), dtype)
    _check_norm(name, "sum_norm", sum_norm, hidden, pairs, epsilon)
    _check_norm(name, "pair_norm", pair_norm, channels, pairs, epsilon)
    out = result(name, pairs.device, out, pairs.shape, pairs.dtype)
    places = rows * columns
    flops = 2 * _product(batch * places, hidden, channels)
    operands = (sums, pairs, *sum_norm, *pair_norm, gates, weights, out)
    call(
        name,
        operands,
        (batch, places, hidden, channels, int(residual), float(epsilon)),
        pairs.device,
        Count(flops, nbytes(*operands)),
        label,
    )
    return out


def transition(
    x: Array,
    norm: LayerNormWeights,
    first: Array,
    second: Array,
    *,
    activation: str | None = "relu",
    epsilon: float = 1e-5,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Rows of x plus activation(LayerNorm(x) @ first.T) @ second.T, in one pass; CPUs only.

    x and the result are (rows, channels), first (hidden, channels), second (channels, hidden).
    """
    name = "transition"
    rows, width = check(name, "x", x, (None, None)).shape
    hidden = check(name, "first", first, (None, width), (x.dtype,)).shape[0]
    check(name, "second", second, (width, hidden), (x.dtype,))
    _check_norm(name, "norm", norm, width, x, epsilon)
    out = result(name, x.device, out, (rows, width), x.dtype)
    operands = (x, *norm, first, second, out)
    call(
        name,
        operands,
        (rows, width, hidden, activation_code(name, activation), float(epsilon)),
        x.device,
        Count(2 * _product(rows, hidden, width), nbytes(*operands)),
        label,
    )
    return out


def gated_attention(
    projected: Array,
    heads: int,
    *,
    bias: Array | None = None,
    along_columns: bool = False,
    scale: float | None = None,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """softmax(scale q k + bias) v * sigmoid(gate) among the places of each row of a plane; CPUs only.

    `projected` is (rows, columns, 4 x heads x head_dim): the queries of all heads, their keys, values and
    gates. The result is (rows, columns, heads x head_dim). With `along_columns`, the places of a column
    attend to each other. The bias is (heads, length, length); `scale` defaults to 1 / sqrt(head_dim).
    """
    name = "gated_attention"
    rows, columns, width = check(name, "projected", projected, (None,) * 3).shape
    if heads < 1 or width % (_PARTS * heads):
        raise ShapeError(
            f"{name}: expected the last axis of projected in multiples of 4 x {heads} heads, got {width}"
        )
    inner = width // _PARTS
    head_dim = inner // heads
    length, sequences = (rows, columns) if along_columns else (columns, rows)
    check_given(name, "bias", bias, (heads, length, length), (projected.dtype,))
    out = result(name, projected.device, out, (rows, columns, inner), projected.dtype)
    scale = 1.0 / math.sqrt(max(head_dim, 1)) if scale is None else scale
    flops = 2 * sequences * _product(length, length, inner)
    call(
        name,
        [projected, bias, out],
        (rows, columns, heads, head_dim, int(along_columns), float(scale)),
        projected.device,
        Count(flops, nbytes(projected, bias, out)),
        label,
    )
    return out


def outer_product_mean(
    left: Array,
    right: Array,
    weights: Array,
    pairs: Array,
    *,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """Pairs of residues plus the projected mean over sequences of their channels' outer products; CPUs only.

    `left` and `right` are (sequences, residues, inner), weights (channels, inner x inner), pairs and the
    result (residues, residues, channels).
    """
    name = "outer_product_mean"
    sequences, residues, inner = check(name, "left", left, (None,) * 3).shape
    if not sequences:
        raise ShapeError(f"{name}: expected left of 1 sequence or more, got 0")
    check(name, "right", right, (sequences, residues, inner), (left.dtype,))
    channels = check(name, "weights", weights, (None, inner * inner), (left.dtype,)).shape[0]
    check(name, "pairs", pairs, (residues, residues, channels), (left.dtype,))
    out = result(name, left.device, out, pairs.shape, left.dtype)
    width = residues * inner
    flops = _product(width, width, sequences) + _product(residues**2, channels, inner**2)
    operands = (left, right, weights, pairs, out)
    call(
        name,
        operands,
        (sequences, residues, inner, channels),
        left.device,
        Count(flops, nbytes(*operands)),
        label,
    )
    return out


def _check_norm(
    operation: str, name: str, norm: LayerNormWeights, width: int, like: Array, epsilon: float
) -> None:
    weight, bias = norm
    for array in (weight, bias):
        check(operation, name, array, (width,), (like.dtype,))
    if not epsilon >= 0:
        raise InputError(f"{operation}: expected an epsilon of 0 or more, got {epsilon}")


def _product(rows: int, columns: int, depth: int) -> float:
    """FLOPs of a product, by the stack's equation."""
    return counting.gemm(rows, columns, depth, 4.0).flops
