"""Shapes of the trunk: blocks of AlphaFold 2's Evoformer (Jumper et al. 2021), fewer and narrower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KINDS: Final = 23
"""Symbols of an alignment: 20 amino acids, an unknown one, a gap, a mask."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """Extents of the alignment, and widths of the layers."""

    residues: int
    sequences: int
    blocks: int
    alignment_channels: int
    pair_channels: int
    triangle_channels: int
    """Hidden channels of triangle multiplication."""
    heads: int
    head_channels: int
    outer_channels: int
    """Channels of either factor of the outer product."""
    transition: int
    """Hidden channels of a transition over those outside."""
    relative: int
    """Distances along the chain beyond which pairs are alike."""
    bins: int
    """Of distances."""


SMALL_TRUNK: Final = Trunk(
    residues=128, sequences=64, blocks=2, alignment_channels=64, pair_channels=128, triangle_channels=128,
    heads=4, head_channels=16, outer_channels=16, transition=2, relative=32, bins=64,
)  # fmt: skip
"""What `assay bench protein` measures: pairs as wide as published, the rest narrower; two blocks of 48."""
