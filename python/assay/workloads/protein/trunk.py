"""Our program: alignments through the blocks of the trunk to logits of distances."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from assay import ops, xp
from assay.load.workloads.measurement import Setting
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Program
from assay.workloads.protein.alignment import (
    FusedGatedAttention,
    FusedOuterProductMean,
    FusedTransition,
    GatedAttention,
    OuterProductMean,
    Transition,
)
from assay.workloads.protein.configuration import Trunk
from assay.workloads.protein.layers import Place, rows
from assay.workloads.protein.triangle import FusedTriangleMultiplication, TriangleMultiplication
from assay.workloads.protein.weights import BlockWeights, TrunkWeights


class _Block:
    def __init__(
        self, weights: BlockWeights, place: Place, trunk: Trunk, layout: str, *, fused: bool
    ) -> None:
        attention = FusedGatedAttention if fused else GatedAttention
        transition = FusedTransition if fused else Transition
        outer = FusedOuterProductMean if fused else OuterProductMean
        triangle: Any = (
            FusedTriangleMultiplication if fused else partial(TriangleMultiplication, layout=layout)
        )
        self.rows = attention(weights.rows, place, trunk.heads, along_columns=False)
        self.columns = attention(weights.columns, place, trunk.heads, along_columns=True)
        self.alignment_transition = transition(weights.alignment_transition, place)
        self.outer = outer(weights.outer, place)
        self.outgoing = triangle(weights.outgoing, place, incoming=False)
        self.incoming = triangle(weights.incoming, place, incoming=True)
        self.pair_transition = transition(weights.pair_transition, place)


class TrunkProgram(Program):
    """The trunk on one device; the seconds of its parts are those of all structures."""

    def __init__(
        self,
        data: DataSet,
        device: Device,
        settings: Mapping[str, Setting],
        trunk: Trunk,
        weights: TrunkWeights,
    ) -> None:
        """Pack the weights, and copy the alignments to the device."""
        self._device, self._trunk = device, trunk
        place = Place(device)
        layout, fused = str(settings["layout"]), settings["fused"] == "on"
        self._blocks = [
            _Block(block, place, trunk, layout, fused=fused) for block in weights.blocks
        ]
        self._symbols = place.array(weights.symbols)
        self._left, self._right = place.array(weights.left), place.array(weights.right)
        self._relative = place.array(weights.relative)
        self._distances = place.pack(weights.distances)
        offsets = np.arange(trunk.residues)[:, None] - np.arange(trunk.residues)[None]
        offsets = np.clip(offsets, -trunk.relative, trunk.relative) + trunk.relative
        self._offsets = xp.asarray(offsets.ravel().astype(np.int32), device=device, copy=True)
        self._alignments: list[Array] = []
        self._logits: list[Array] = []
        shape = (len(data.arrays["alignments"]), trunk.residues, trunk.residues, trunk.bins)
        self._shape = shape
        self.load(data)

    def load(self, data: DataSet) -> None:
        """Copy other alignments."""
        self._alignments = [
            xp.asarray(alignment.astype(np.int32), device=self._device, copy=True)
            for alignment in data.arrays["alignments"]
        ]

    def run(self) -> Mapping[str, float]:
        """Logits of distances of all structures."""
        seconds = {"alignment": 0.0, "triangles": 0.0, "rest": 0.0}
        self._logits = []
        for symbols in self._alignments:
            clock = [time.perf_counter()]

            def lap(part: str, clock: list[float] = clock) -> None:
                self._device.synchronize()
                now = time.perf_counter()
                seconds[part] += now - clock[0]
                clock[0] = now

            alignment, pairs = self._embed(symbols)
            lap("rest")
            for block in self._blocks:
                alignment = block.rows(alignment, pairs)
                alignment = block.columns(alignment)
                alignment = block.alignment_transition(alignment)
                lap("alignment")
                pairs = block.outer(alignment, pairs)
                lap("rest")
                square = xp.reshape(pairs, (1, *pairs.shape))
                square = block.outgoing(square, residual=True)
                square = block.incoming(square, residual=True)
                pairs = xp.reshape(square, pairs.shape)
                lap("triangles")
                pairs = block.pair_transition(pairs)
                lap("rest")
            # Distances are the same in both directions.
            both = pairs + xp.permute_dims(pairs, (1, 0, 2))
            self._logits.append(ops.linear(rows(both), self._distances))
            lap("rest")
        return seconds

    def _embed(self, symbols: Array) -> tuple[Array, Array]:
        trunk = self._trunk
        first = symbols[0]
        alignment = ops.gather_rows(self._symbols, xp.reshape(symbols, (-1,)))
        alignment = xp.reshape(alignment, (trunk.sequences, trunk.residues, -1))
        left, right = ops.gather_rows(self._left, first), ops.gather_rows(self._right, first)
        pairs = xp.reshape(
            ops.gather_rows(self._relative, self._offsets), (trunk.residues, trunk.residues, -1)
        )
        pairs += left[:, None]
        pairs += right[None]
        return alignment, pairs

    def outputs(self) -> Arrays:
        """Logits of distances, (structures, N, N, bins)."""
        logits = np.full(self._shape, np.nan, np.float32)
        for index, values in enumerate(self._logits):
            logits[index] = xp.astype(values, xp.float32).to_numpy().reshape(self._shape[1:])
        return {"logits": logits}

    def poison(self) -> None:
        """Forget the outputs: what is not computed again reads as NaN."""
        self._logits = []
