"""`protein`: aligned sequences to distances between residues, verified by NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from assay.load.workloads.measurement import Setting
from assay.runtime.hardware import Device
from assay.workloads.contract import (
    Arrays,
    ArrayWorkload,
    DataSet,
    Program,
    Sizes,
    Verified,
    Work,
    WorkloadSetting,
)
from assay.workloads.protein import reference
from assay.workloads.protein.configuration import KINDS, SMALL_TRUNK, Trunk
from assay.workloads.protein.pytorch_rival import PyTorchRival
from assay.workloads.protein.triangle import CHANNELS, ROWS
from assay.workloads.protein.trimul import SHAPES, TriMul, geometric_means
from assay.workloads.protein.trunk import TrunkProgram
from assay.workloads.protein.weights import TrunkWeights, trunk_weights
from assay.workloads.random_numbers import RandomNumbers

_TOLERANCE: Final = 1e-4
"""Of logits, relative to the largest: sums in float32, two blocks deep."""
_AGAINST: Final = "NumPy in double precision"
_MUTATED_PER_1024: Final = 300
_BLOCK_STEPS: Final = 4 + 4 + 2 + 3 + 2 * 3 + 2
"""Products of a block of which each needs the one before: both attentions (projections, scores, values, output), a
transition, the outer product mean, both triangles (factors, sums, output), a transition."""
_OTHER_STEPS: Final = 2
"""The embedding and the distances."""


class Protein(ArrayWorkload):
    """A small Evoformer trunk over generated alignments."""

    name = "protein"
    unit = "structure"
    figure = "structures/h"
    sizes = Sizes(quick=1, usual=4)
    gpu_cases = tuple(TriMul(shape) for shape in SHAPES)

    def __init__(self, trunk: Trunk = SMALL_TRUNK) -> None:
        """Predict with this trunk."""
        self.trunk: Final = trunk
        self.rivals = tuple(
            PyTorchRival(trunk, self, compiled=compiled) for compiled in (False, True)
        )

    @cached_property
    def weights(self) -> TrunkWeights:
        """The trunk's weights, made on first use."""
        return trunk_weights(self.trunk)

    def generate(self, seed: int, size: int) -> DataSet:
        """Alignments: an ancestor of random residues, and sequences in which some have changed."""
        trunk = self.trunk
        alignments = np.empty((size, trunk.sequences, trunk.residues), np.uint8)
        for index in range(size):
            numbers = RandomNumbers(seed, index)
            count = trunk.sequences * trunk.residues
            ancestor = numbers.integers(trunk.residues, KINDS)
            other = numbers.integers(count, KINDS).reshape(trunk.sequences, -1)
            changed = (
                numbers.integers(count, 1_024).reshape(trunk.sequences, -1) < _MUTATED_PER_1024
            )
            alignments[index] = np.where(changed, other, ancestor)
        return DataSet({"alignments": alignments}, size)

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """The same on every device."""
        return (
            WorkloadSetting(
                name="layout",
                meaning="whether factors of triangles are computed place by place, or channel by channel",
                mechanism="channels come first in products: inputs are transposed once instead of both factors",
                values=(ROWS, CHANNELS),
                plain=ROWS,
                default=CHANNELS,
                keeps="rounding",
            ),
            WorkloadSetting(
                name="fused",
                meaning="whether layers are few operations, or one for each of their steps",
                mechanism="a block of rows stays in cache from its norm to its last product: gates, scores and wide "
                "layers are never written, and transpositions are part of products",
                values=("off", "on"),
                plain="off",
                default="on",
                keeps="rounding",
            ),
        )

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """Our trunk."""
        return TrunkProgram(data, device, settings, self.trunk, self.weights)

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        """Logits against NumPy's."""
        error, structures = 0.0, 0
        for alignment, logits in zip(data.arrays["alignments"], outputs["logits"], strict=True):
            expected = reference.distance_logits(alignment, self.trunk, self.weights)
            if not np.isfinite(logits).all():
                return Verified(float("nan"), _TOLERANCE, _AGAINST, data.units)
            error = max(error, float(np.abs(logits - expected).max() / np.abs(expected).max()))
            structures += 1
        return Verified(error, _TOLERANCE, _AGAINST, structures)

    def rows(self, data: DataSet) -> tuple[int, str]:
        """Logits of every two residues."""
        return data.units * self.trunk.residues**2, "pairs of residues"

    def summary(self, figures: Sequence[Any]) -> str:
        """Of the shapes of a GPU, the geometric mean."""
        return geometric_means(figures) if figures and figures[0].unit == TriMul.figure else ""

    def work(self, data: DataSet) -> Work:
        """Products of all layers; pairs and alignment read and written once a layer."""
        trunk = self.trunk
        n, s, c, z = trunk.residues, trunk.sequences, trunk.alignment_channels, trunk.pair_channels
        hidden, inner, outer = (
            trunk.triangle_channels,
            trunk.heads * trunk.head_channels,
            trunk.outer_channels,
        )
        attention = 2.0 * s * n * c * inner * 5
        rows = attention + 2.0 * n * n * z * trunk.heads + 4.0 * s * n * n * inner
        columns = attention + 4.0 * n * s * s * inner
        transitions = 4.0 * trunk.transition * (s * n * c * c + n * n * z * z)
        products = 4.0 * s * n * c * outer + 2.0 * (n * outer) ** 2 * s + 2.0 * n * n * outer**2 * z
        triangles = 2 * (2.0 * n * n * z * hidden * 6 + 2.0 * n**3 * hidden)
        block = rows + columns + transitions + products + triangles
        flops = trunk.blocks * block + 2.0 * n * n * z * trunk.bins
        # Three layers change the alignment, four the pairs.
        moved = trunk.blocks * 2.0 * (3 * s * n * c + 4 * n * n * z) + n * n * (z + trunk.bins)
        steps = trunk.blocks * _BLOCK_STEPS + _OTHER_STEPS
        return Work(data.units * flops, data.units * 4.0 * moved, float(steps))


WORKLOAD: Final = Protein()
