"""Layers over the alignment: attention of rows and columns, transitions, the outer product mean."""

from __future__ import annotations

import math

from assay import ops, xp
from assay.runtime.array import Array
from assay.workloads.protein.layers import Place, normalize, product, rows
from assay.workloads.protein.weights import (
    EPSILON,
    AttentionWeights,
    OuterWeights,
    TransitionWeights,
)


class GatedAttention:
    """Attention within rows of (sequences, residues, channels), biased by pairs, or within columns."""

    def __init__(
        self, weights: AttentionWeights, place: Place, heads: int, *, along_columns: bool
    ) -> None:
        """Pack the weights; queries are scaled once, in them."""
        self._along_columns = along_columns
        self._heads = heads
        inner = weights.query.shape[0]
        scaled = weights.query * (1.0 / math.sqrt(inner // heads))
        self._norm = place.norm(weights.norm)
        self._projections = [place.pack(matrix) for matrix in (scaled, weights.key, weights.value)]
        self._gate, self._out = place.pack(weights.gate), place.pack(weights.out)
        self._pairs = None
        if weights.pair_norm is not None and weights.pair_bias is not None:
            self._pairs = place.norm(weights.pair_norm), place.pack(weights.pair_bias)

    def __call__(self, alignment: Array, pairs: Array | None = None) -> Array:
        """The alignment plus its update."""
        if self._along_columns:
            return _transposed(self._within_rows(_transposed(alignment), None))
        return self._within_rows(alignment, pairs)

    def _within_rows(self, alignment: Array, pairs: Array | None) -> Array:
        sequences, residues, width = alignment.shape
        flat = rows(alignment)
        normed = normalize(flat, self._norm)
        query, key, value = (
            self._split(ops.linear(normed, weights), sequences, residues)
            for weights in self._projections
        )
        scores = product(query, xp.matrix_transpose(key))
        if pairs is not None and self._pairs is not None:
            norm, weights = self._pairs
            bias = ops.linear(normalize(rows(pairs), norm), weights)
            bias = xp.permute_dims(bias, (1, 0))
            scores += xp.reshape(bias, (1, self._heads, residues, residues))
        shares = xp.reshape(ops.softmax(rows(scores)), scores.shape)
        mixed = xp.permute_dims(product(shares, value), (0, 2, 1, 3))
        mixed = xp.reshape(xp.asarray(mixed, copy=True), (flat.shape[0], -1))
        mixed *= ops.linear(normed, self._gate, activation="sigmoid")
        return xp.reshape(ops.linear(mixed, self._out, residual=flat), (sequences, residues, width))

    def _split(self, x: Array, sequences: int, residues: int) -> Array:
        """(sequences, heads, residues, channels of a head)."""
        heads = xp.reshape(x, (sequences, residues, self._heads, -1))
        return xp.asarray(xp.permute_dims(heads, (0, 2, 1, 3)), copy=True)


class FusedGatedAttention:
    """The same in one operation between the projections, in which scores are never written."""

    def __init__(
        self, weights: AttentionWeights, place: Place, heads: int, *, along_columns: bool
    ) -> None:
        """Pack the weights."""
        self._heads, self._along_columns = heads, along_columns
        self._norm = place.norm(weights.norm)
        self._projections = place.pack(weights.query, weights.key, weights.value, weights.gate)
        self._out = place.pack(weights.out)
        self._pairs = None
        if weights.pair_norm is not None and weights.pair_bias is not None:
            self._pairs = place.norm(weights.pair_norm), place.array(weights.pair_bias)

    def __call__(self, alignment: Array, pairs: Array | None = None) -> Array:
        """The alignment plus its update."""
        flat = rows(alignment)
        projected = ops.linear(normalize(flat, self._norm), self._projections)
        bias = None
        if pairs is not None and self._pairs is not None:
            norm, weights = self._pairs
            plane = xp.reshape(pairs, (1, *pairs.shape))
            bias = ops.channel_projection(plane, norm, weights, epsilon=EPSILON)[0]
        mixed = ops.gated_attention(
            xp.reshape(projected, (*alignment.shape[:2], -1)),
            self._heads,
            bias=bias,
            along_columns=self._along_columns,
        )
        return xp.reshape(ops.linear(rows(mixed), self._out, residual=flat), alignment.shape)


class Transition:
    """A layer of more channels, ReLU, and back; added to its input."""

    def __init__(self, weights: TransitionWeights, place: Place) -> None:
        """Pack the weights."""
        self._norm = place.norm(weights.norm)
        self._first, self._second = place.pack(weights.first), place.pack(weights.second)

    def __call__(self, x: Array) -> Array:
        """The input plus its update."""
        flat = rows(x)
        wide = ops.linear(normalize(flat, self._norm), self._first, activation="relu")
        return xp.reshape(ops.linear(wide, self._second, residual=flat), x.shape)


class FusedTransition:
    """The same in one operation, in which the wide layer is never written."""

    def __init__(self, weights: TransitionWeights, place: Place) -> None:
        """Copy the weights to the device."""
        self._norm = place.norm(weights.norm)
        self._first, self._second = place.array(weights.first), place.array(weights.second)

    def __call__(self, x: Array) -> Array:
        """The input plus its update."""
        out = ops.transition(rows(x), self._norm, self._first, self._second, epsilon=EPSILON)
        return xp.reshape(out, x.shape)


class OuterProductMean:
    """From the alignment to pairs: the mean over sequences of products of two residues' channels."""

    def __init__(self, weights: OuterWeights, place: Place) -> None:
        """Pack the weights."""
        self._norm = place.norm(weights.norm)
        self._left, self._right = place.pack(weights.left), place.pack(weights.right)
        self._out = place.pack(weights.out)

    def __call__(self, alignment: Array, pairs: Array) -> Array:
        """The pairs plus their update."""
        sequences, residues, _ = alignment.shape
        normed = normalize(rows(alignment), self._norm)
        left = xp.reshape(ops.linear(normed, self._left), (sequences, -1))
        right = xp.reshape(ops.linear(normed, self._right), (sequences, -1))
        products = product(xp.matrix_transpose(left), right)
        products *= 1.0 / sequences
        inner = left.shape[1] // residues
        by_pair = xp.reshape(products, (residues, inner, residues, inner))
        by_pair = xp.asarray(xp.permute_dims(by_pair, (0, 2, 1, 3)), copy=True)
        by_pair = xp.reshape(by_pair, (residues * residues, inner * inner))
        out = ops.linear(by_pair, self._out, residual=rows(pairs))
        return xp.reshape(out, pairs.shape)


class FusedOuterProductMean:
    """The same in one operation after both factors: products of pairs are never written."""

    def __init__(self, weights: OuterWeights, place: Place) -> None:
        """Pack the weights."""
        self._norm = place.norm(weights.norm)
        self._left, self._right = place.pack(weights.left), place.pack(weights.right)
        self._out = place.array(weights.out)

    def __call__(self, alignment: Array, pairs: Array) -> Array:
        """The pairs plus their update."""
        normed = normalize(rows(alignment), self._norm)
        left, right = (
            xp.reshape(ops.linear(normed, weights), (*alignment.shape[:2], -1))
            for weights in (self._left, self._right)
        )
        return ops.outer_product_mean(left, right, self._out, pairs)


def _transposed(alignment: Array) -> Array:
    return xp.asarray(xp.permute_dims(alignment, (1, 0, 2)), copy=True)
