"""The trunk a second time, in NumPy and double precision, to verify outputs; it shares no code with the programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from assay.workloads.protein.configuration import Trunk
from assay.workloads.protein.weights import (
    EPSILON,
    AttentionWeights,
    Floats,
    Norm,
    OuterWeights,
    TransitionWeights,
    TriangleWeights,
    TrunkWeights,
)

Doubles = npt.NDArray[np.float64]


def distance_logits(alignment: npt.NDArray[Any], trunk: Trunk, weights: TrunkWeights) -> Doubles:
    """Logits of distances, (N, N, bins)."""
    m: Doubles = weights.symbols[alignment].astype(np.float64)
    first = alignment[0]
    place = np.arange(trunk.residues)
    apart = np.clip(place[:, None] - place, -trunk.relative, trunk.relative) + trunk.relative
    z: Doubles = weights.relative[apart].astype(np.float64)
    z = z + weights.left[first][:, None] + weights.right[first][None]
    for block in weights.blocks:
        m = m + _attend(m, block.rows, trunk.heads, z)
        m = m + _attend(m.swapaxes(0, 1), block.columns, trunk.heads, None).swapaxes(0, 1)
        m = m + _transition(m, block.alignment_transition)
        z = z + _outer(m, block.outer)
        z = z + triangle(z, block.outgoing, incoming=False)
        z = z + triangle(z, block.incoming, incoming=True)
        z = z + _transition(z, block.pair_transition)
    logits: Doubles = (z + z.swapaxes(0, 1)) @ weights.distances.T.astype(np.float64)
    return logits


def triangle(
    z: Doubles, weights: TriangleWeights, *, incoming: bool, mask: Doubles | None = None
) -> Doubles:
    """The update of pairs (N, N, channels) by their triangles."""
    x = _norm(z, weights.norm)
    keep = 1.0 if mask is None else mask[:, :, None]
    left = (x @ _wide(weights.left)) * _sigmoid(x @ _wide(weights.left_gate)) * keep
    right = (x @ _wide(weights.right)) * _sigmoid(x @ _wide(weights.right_gate)) * keep
    path = "kih,kjh->ijh" if incoming else "ikh,jkh->ijh"
    total = np.einsum(path, left, right, optimize=True)
    gated = _norm(total, weights.out_norm) * _sigmoid(x @ _wide(weights.out_gate))
    update: Doubles = gated @ _wide(weights.out)
    return update


def triangle_at(
    z: npt.NDArray[Any],
    weights: TriangleWeights,
    rows: npt.NDArray[Any],
    columns: npt.NDArray[Any],
    mask: npt.NDArray[Any] | None = None,
) -> Doubles:
    """The update over outgoing edges at some rows and columns, (rows, columns, channels)."""

    def factor(places: npt.NDArray[Any], matrix: Floats, gate: Floats) -> Doubles:
        x = _norm(z[places].astype(np.float64), weights.norm)
        keep = 1.0 if mask is None else mask[places][:, :, None].astype(np.float64)
        gated: Doubles = (x @ _wide(matrix)) * _sigmoid(x @ _wide(gate)) * keep
        return gated

    left = factor(rows, weights.left, weights.left_gate)
    right = factor(columns, weights.right, weights.right_gate)
    total = np.einsum("ikh,jkh->ijh", left, right, optimize=True)
    x = _norm(z[np.ix_(rows, columns)].astype(np.float64), weights.norm)
    gated = _norm(total, weights.out_norm) * _sigmoid(x @ _wide(weights.out_gate))
    update: Doubles = gated @ _wide(weights.out)
    return update


def _wide(matrix: Floats) -> Doubles:
    return matrix.T.astype(np.float64)


def _norm(x: Doubles, norm: Norm) -> Doubles:
    centered = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
    scaled: Doubles = centered / deviation * norm.weight + norm.bias
    return scaled


def _sigmoid(x: Doubles) -> Doubles:
    # Without overflow for large negative numbers.
    value: Doubles = 0.5 * (1.0 + np.tanh(0.5 * x))
    return value


def _attend(m: Doubles, weights: AttentionWeights, heads: int, z: Doubles | None) -> Doubles:
    x = _norm(m, weights.norm)
    count, length, _ = x.shape
    q, k, v = (
        (x @ _wide(matrix)).reshape(count, length, heads, -1)
        for matrix in (weights.query, weights.key, weights.value)
    )
    scores = np.einsum("bqhd,bkhd->bhqk", q, k, optimize=True) / np.sqrt(q.shape[-1])
    if z is not None:
        assert weights.pair_norm is not None
        assert weights.pair_bias is not None
        bias = _norm(z, weights.pair_norm) @ _wide(weights.pair_bias)
        scores = scores + bias.transpose(2, 0, 1)[None]
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed = np.einsum("bhqk,bkhd->bqhd", shares, v, optimize=True).reshape(count, length, -1)
    update: Doubles = (mixed * _sigmoid(x @ _wide(weights.gate))) @ _wide(weights.out)
    return update


def _transition(x: Doubles, weights: TransitionWeights) -> Doubles:
    wide = np.maximum(_norm(x, weights.norm) @ _wide(weights.first), 0.0)
    update: Doubles = wide @ _wide(weights.second)
    return update


def _outer(m: Doubles, weights: OuterWeights) -> Doubles:
    x = _norm(m, weights.norm)
    left, right = x @ _wide(weights.left), x @ _wide(weights.right)
    products = np.einsum("sic,sjd->ijcd", left, right, optimize=True) / len(m)
    update: Doubles = products.reshape(*products.shape[:2], -1) @ _wide(weights.out)
    return update
