"""The network and its grid: PointPillars (Lang et al. 2019, arXiv:1812.05784) as published for KITTI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

POINT_INPUTS: Final = 10
"""Coordinates and intensity of a point, its offset from the mean of its pillar, and from the pillar's center."""
BOX_CODE: Final = 7
"""Center, length, width, height and heading of a box."""
DIRECTIONS: Final = 2
"""A box looks forward or backward."""
ROTATIONS: Final = (0.0, 1.57)
"""Headings of the anchors of a class."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Pillars over the ground: cells along y and x, and heights that count."""

    rows: int
    columns: int
    cell: float
    """Meters of a pillar along x and y."""
    x_least: float
    y_least: float
    z_least: float
    height: float
    most_pillars: int
    most_points: int
    """Points of a pillar that count: the first of the scan."""


@dataclass(frozen=True, slots=True)
class AnchorClass:
    """A kind of object, and the box that its residuals refer to."""

    name: str
    length: float
    width: float
    height: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Block:
    """A strided convolution, then `layers` more of stride 1; its result is upsampled for the heads."""

    channels: int
    layers: int
    stride: int
    upsampling: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """Grid, layers, anchors, and how boxes are chosen."""

    grid: Grid
    pillar_channels: int
    blocks: tuple[Block, ...]
    upsampled_channels: int
    classes: tuple[AnchorClass, ...]
    score_threshold: float = 0.1
    candidates: int = 4_096
    """Boxes of the best scores that non-maximum suppression reads."""
    overlap_threshold: float = 0.01
    most_boxes: int = 500

    @property
    def map_rows(self) -> int:
        """Rows of the map that the heads read."""
        return self.grid.rows // self.blocks[0].stride * self.blocks[0].upsampling

    @property
    def map_columns(self) -> int:
        """Columns of that map."""
        return self.grid.columns // self.blocks[0].stride * self.blocks[0].upsampling

    @property
    def anchors(self) -> int:
        """Anchors of a place of the map."""
        return len(self.classes) * len(ROTATIONS)

    @property
    def head_channels(self) -> tuple[int, int, int]:
        """Channels of the heads: scores, boxes, directions."""
        anchors = self.anchors
        return anchors * len(self.classes), anchors * BOX_CODE, anchors * DIRECTIONS


KITTI_CLASSES: Final = (
    AnchorClass("Car", 3.9, 1.6, 1.56, -1.78),
    AnchorClass("Pedestrian", 0.8, 0.6, 1.73, -0.6),
    AnchorClass("Cyclist", 1.76, 0.6, 1.73, -0.6),
)

KITTI: Final = Configuration(
    grid=Grid(496, 432, 0.16, 0.0, -39.68, -3.0, 4.0, most_pillars=16_000, most_points=32),
    pillar_channels=64,
    blocks=(Block(64, 3, 2, 1), Block(128, 5, 2, 2), Block(256, 5, 2, 4)),
    upsampled_channels=128,
    classes=KITTI_CLASSES,
)
"""As published: 0.16 m pillars over 69 m ahead and 40 m to both sides."""
