"""Triangle multiplication (Jumper et al. 2021, algorithms 11 and 12): out[i, j] sums left[i, k] right[j, k] over k."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from assay import ops, xp
from assay.errors import ShapeError
from assay.runtime.array import Array
from assay.workloads.protein.layers import Place, normalize, product, rows
from assay.workloads.protein.weights import EPSILON, Floats, TriangleWeights

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
        factors, gates = _both(weights)
        if self._channels_first:
            self._factors, self._gates = (
                place.array(factors[:, :, None]),
                place.array(gates[:, :, None]),
            )
        else:
            self._projections, self._projection_gates = place.pack(factors), place.pack(gates)

    def __call__(self, pairs: Array, mask: Array | None = None, *, residual: bool = False) -> Array:
        """The update of pairs, or with `residual` their sum; the mask (batch, N, N) counts edges."""
        _check(pairs)
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


class FusedTriangleMultiplication:
    """The same in three operations: gated factors channel by channel, their products, the update."""

    def __init__(self, weights: TriangleWeights, place: Place, *, incoming: bool) -> None:
        """Copy the weights to the device."""
        self._incoming = incoming
        self._hidden = weights.left.shape[0]
        self._norm, self._out_norm = place.norm(weights.norm), place.norm(weights.out_norm)
        self._factors, self._gates = (place.array(matrix) for matrix in _both(weights))
        self._out, self._out_gate = place.array(weights.out), place.array(weights.out_gate)

    def __call__(self, pairs: Array, mask: Array | None = None, *, residual: bool = False) -> Array:
        """The update of pairs, or with `residual` their sum; the mask (batch, N, N) counts edges."""
        _check(pairs)
        out = xp.empty(pairs.shape, dtype=pairs.dtype, device=pairs.device)
        self.write(pairs, mask, self.room(pairs), out, residual=residual)
        return out

    def room(self, pairs: Array) -> Room:
        """Memory for the factors and sums of pairs."""
        batch, side, _, _ = pairs.shape
        factors, sums = (
            xp.empty(
                (batch, parts * self._hidden, side, side), dtype=pairs.dtype, device=pairs.device
            )
            for parts in (2, 1)
        )
        return Room(factors, sums)

    def write(
        self, pairs: Array, mask: Array | None, room: Room, out: Array, *, residual: bool = False
    ) -> None:
        """The same into `out`, without allocations: a graph can have it."""
        # Edges (k, i) are written as (i, k): either product is then of rows with rows.
        ops.channel_projection(
            pairs,
            self._norm,
            self._factors,
            self._gates,
            mask=mask,
            transposed=self._incoming,
            epsilon=EPSILON,
            out=room.factors,
        )
        for sample in range(pairs.shape[0]):
            left, right = (
                room.factors[sample, : self._hidden],
                room.factors[sample, self._hidden :],
            )
            ops.batched_matmul(left, xp.matrix_transpose(right), room.sums[sample])
        ops.triangle_update(
            room.sums,
            pairs,
            sum_norm=self._out_norm,
            pair_norm=self._norm,
            gates=self._out_gate,
            weights=self._out,
            residual=residual,
            epsilon=EPSILON,
            out=out,
        )


class Room(NamedTuple):
    """What lies between the operations of `FusedTriangleMultiplication`."""

    factors: Array
    sums: Array


def _check(pairs: Array) -> None:
    shape = tuple(pairs.shape)
    if len(shape) != 4 or shape[1] != shape[2]:
        raise ShapeError(f"pairs: expected shape (batch, N, N, channels), got {shape}")


def _both(weights: TriangleWeights) -> tuple[Floats, Floats]:
    """The projections of both factors, one below the other, and their gates."""
    return (
        np.concatenate([weights.left, weights.right]),
        np.concatenate([weights.left_gate, weights.right_gate]),
    )
