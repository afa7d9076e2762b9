"""Triangle multiplication (Jumper et al. 2021, algorithms 11 and 12): out[i, j] sums left[i, k] right[j, k] over k."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay import ops, xp
from assay.runtime.array import Array
from assay.workloads.protein.layers import Place, normalize, product, rows
from assay.workloads.protein.weights import TriangleWeights

ROWS: Final = "rows"
CHANNELS: Final = "channels"


class TriangleMultiplication:
    """The update of pairs (batch, N, N, channels) by their triangles."""

    def __init__(
        self, weights: TriangleWeights, place: Place, *, incoming: bool, layout: str = CHANNELS
    ) -> None:
        """Pack the weights; `incoming` sums over edges that end in a pair instead of those that begin there."""
        self._incoming = incoming
        self._channels_first = layout == CHANNELS
        self._hidden = weights.left.shape[0]
        self._norm, self._out_norm = place.norm(weights.norm), place.norm(weights.out_norm)
        self._out = place.pack(weights.out)
        self._out_gate = place.pack(weights.out_gate)
        if self._channels_first:
            factors = np.concatenate([weights.left, weights.right])[:, :, None]
            gates = np.concatenate([weights.left_gate, weights.right_gate])[:, :, None]
            self._factors, self._gates = place.array(factors), place.array(gates)
        else:
            self._projections = place.pack(weights.left, weights.right)
            self._projection_gates = place.pack(weights.left_gate, weights.right_gate)

    def __call__(self, pairs: Array, mask: Array | None = None, *, residual: bool = False) -> Array:
        """The update of pairs, or with `residual` their sum; the mask (batch, N, N) counts edges."""
        batch, side, _, channels = pairs.shape
        flat = rows(pairs)
        normed = normalize(flat, self._norm)
        gate = ops.linear(normed, self._out_gate, activation="sigmoid")
        products = self._products(normed, mask, batch, side)
        update = normalize(products, self._out_norm)
        update *= gate
        out = ops.linear(update, self._out, residual=flat if residual else None)
        return xp.reshape(out, (batch, side, side, channels))

    def _products(self, normed: Array, mask: Array | None, batch: int, side: int) -> Array:
        """Sums over triangles, (batch x N x N, hidden)."""
        factors = (
            self._channel_factors(normed, batch)
            if self._channels_first
            else self._row_factors(normed, batch)
        )
        if mask is not None:
            factors *= xp.reshape(mask, (batch, 1, -1))
        shape = (batch * self._hidden, side, side)
        left = xp.reshape(factors[:, : self._hidden], shape)
        right = xp.reshape(factors[:, self._hidden :], shape)
        if self._incoming:
            # Edges (k, i) and (k, j).
            sums = product(xp.matrix_transpose(left), right)
        else:
            sums = product(left, xp.matrix_transpose(right))
        by_place = xp.permute_dims(xp.reshape(sums, (batch, self._hidden, -1)), (0, 2, 1))
        return xp.reshape(xp.asarray(by_place, copy=True), (-1, self._hidden))

    def _channel_factors(self, normed: Array, batch: int) -> Array:
        """Gated factors, (batch, 2 hidden, N x N): one transposition of the inputs instead of two of results."""
        x = xp.reshape(normed, (batch, -1, normed.shape[1]))
        x = xp.asarray(xp.permute_dims(x, (0, 2, 1)), copy=True)
        factors = ops.conv1d(x, self._factors, label="projections")
        factors *= ops.conv1d(x, self._gates, activation="sigmoid", label="gates")
        return factors

    def _row_factors(self, normed: Array, batch: int) -> Array:
        """The same, computed place by place and transposed."""
        factors = ops.linear(normed, self._projections)
        factors *= ops.linear(normed, self._projection_gates, activation="sigmoid")
        by_place = xp.reshape(factors, (batch, -1, 2 * self._hidden))
        return xp.asarray(xp.permute_dims(by_place, (0, 2, 1)), copy=True)
