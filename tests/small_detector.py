"""The detector with a thousandth of the work: for tests."""

from typing import Final

from assay.workloads.perception.configuration import KITTI_CLASSES, Block, Configuration, Grid

SMALL: Final = Configuration(
    grid=Grid(64, 48, 0.64, 0.0, -20.48, -3.0, 4.0, most_pillars=2_000, most_points=8),
    pillar_channels=16,
    blocks=(Block(16, 1, 2, 1), Block(32, 1, 2, 2)),
    upsampled_channels=16,
    classes=KITTI_CLASSES,
    candidates=256,
    most_boxes=50,
)
