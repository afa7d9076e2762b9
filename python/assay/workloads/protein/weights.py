"""Weights of the trunk, from a seed: nothing is trained, and its distances mean nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from assay.workloads.protein.configuration import KINDS, Trunk
from assay.workloads.random_numbers import RandomNumbers

Floats = npt.NDArray[np.float32]
SEED: Final = 2_021
EPSILON: Final = 1e-5
"""Of every LayerNorm."""


@dataclass(frozen=True, slots=True)
class Norm:
    """Weight and bias of a LayerNorm."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class TriangleWeights:
    """Triangle multiplication; matrices are (outputs, inputs), without biases."""

    norm: Norm
    left: Floats
    right: Floats
    left_gate: Floats
    right_gate: Floats
    out_gate: Floats
    out_norm: Norm
    out: Floats


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Gated attention; `pair_norm` and `pair_bias` for rows of the alignment only."""

    norm: Norm
    query: Floats
    key: Floats
    value: Floats
    gate: Floats
    out: Floats
    pair_norm: Norm | None
    pair_bias: Floats | None


@dataclass(frozen=True, slots=True)
class TransitionWeights:
    """Two layers with ReLU between them."""

    norm: Norm
    first: Floats
    second: Floats


@dataclass(frozen=True, slots=True)
class OuterWeights:
    """Outer product mean: from the alignment to pairs."""

    norm: Norm
    left: Floats
    right: Floats
    out: Floats


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """A block, in the order of its layers."""

    rows: AttentionWeights
    columns: AttentionWeights
    alignment_transition: TransitionWeights
    outer: OuterWeights
    outgoing: TriangleWeights
    incoming: TriangleWeights
    pair_transition: TransitionWeights


@dataclass(frozen=True, slots=True)
class TrunkWeights:
    """Embeddings, blocks, and the head of distances."""

    symbols: Floats
    """(symbols, alignment channels)."""
    left: Floats
    right: Floats
    """(symbols, pair channels): of the first and the second residue of a pair."""
    relative: Floats
    """(2 relative + 1, pair channels)."""
    blocks: tuple[BlockWeights, ...]
    distances: Floats


class _Maker:
    def __init__(self, seed: int) -> None:
        self._numbers = RandomNumbers(seed)

    def matrix(self, outputs: int, inputs: int) -> Floats:
        values = self._numbers.normal(outputs * inputs) / math.sqrt(inputs)
        return values.astype(np.float32).reshape(outputs, inputs)

    def norm(self, width: int) -> Norm:
        weight = 1.0 + 0.1 * self._numbers.normal(width)
        return Norm(
            weight.astype(np.float32), (0.1 * self._numbers.normal(width)).astype(np.float32)
        )

    def attention(self, trunk: Trunk, *, biased: bool) -> AttentionWeights:
        width, inner = trunk.alignment_channels, trunk.heads * trunk.head_channels
        return AttentionWeights(
            norm=self.norm(width),
            query=self.matrix(inner, width),
            key=self.matrix(inner, width),
            value=self.matrix(inner, width),
            gate=self.matrix(inner, width),
            out=self.matrix(width, inner),
            pair_norm=self.norm(trunk.pair_channels) if biased else None,
            pair_bias=self.matrix(trunk.heads, trunk.pair_channels) if biased else None,
        )

    def transition(self, width: int, factor: int) -> TransitionWeights:
        return TransitionWeights(
            self.norm(width), self.matrix(factor * width, width), self.matrix(width, factor * width)
        )

    def outer(self, trunk: Trunk) -> OuterWeights:
        width, inner = trunk.alignment_channels, trunk.outer_channels
        return OuterWeights(
            self.norm(width),
            self.matrix(inner, width),
            self.matrix(inner, width),
            self.matrix(trunk.pair_channels, inner * inner),
        )


def triangle_weights(channels: int, hidden: int, seed: int = SEED) -> TriangleWeights:
    """Weights of one triangle multiplication."""
    return _triangle(_Maker(seed), channels, hidden)


def trunk_weights(trunk: Trunk, seed: int = SEED) -> TrunkWeights:
    """Weights of a trunk that keep the variance of activations."""
    make = _Maker(seed)
    pairs = trunk.pair_channels
    blocks = tuple(
        BlockWeights(
            rows=make.attention(trunk, biased=True),
            columns=make.attention(trunk, biased=False),
            alignment_transition=make.transition(trunk.alignment_channels, trunk.transition),
            outer=make.outer(trunk),
            outgoing=_triangle(make, pairs, trunk.triangle_channels),
            incoming=_triangle(make, pairs, trunk.triangle_channels),
            pair_transition=make.transition(pairs, trunk.transition),
        )
        for _ in range(trunk.blocks)
    )
    return TrunkWeights(
        symbols=make.matrix(KINDS, trunk.alignment_channels),
        left=make.matrix(KINDS, pairs),
        right=make.matrix(KINDS, pairs),
        relative=make.matrix(2 * trunk.relative + 1, pairs),
        blocks=blocks,
        distances=make.matrix(trunk.bins, pairs),
    )


def _triangle(make: _Maker, channels: int, hidden: int) -> TriangleWeights:
    return TriangleWeights(
        norm=make.norm(channels),
        left=make.matrix(hidden, channels),
        right=make.matrix(hidden, channels),
        left_gate=make.matrix(hidden, channels),
        right_gate=make.matrix(hidden, channels),
        out_gate=make.matrix(hidden, channels),
        out_norm=make.norm(hidden),
        out=make.matrix(channels, hidden),
    )
