"""`perception`: frames of lidar scans to boxes, verified by NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

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
from assay.workloads.perception import reference, scans
from assay.workloads.perception.configuration import KITTI, POINT_INPUTS, Configuration
from assay.workloads.perception.detector import SETTINGS, DetectorProgram
from assay.workloads.perception.pytorch_rival import PyTorchRival
from assay.workloads.perception.weights import NetworkWeights, network_weights

_TOLERANCE: Final = 1e-4
"""Of maps, relative to their largest element: sums of thousands of products in float32, 18 layers deep."""
_FLOAT_BYTES: Final = 4
_OTHER_STEPS: Final = 6
"""Beside the convolutions of the blocks, each after the one before: grouping, features, upsampling, heads, choosing
candidates, suppression."""


class Perception(ArrayWorkload):
    """PointPillars over generated scans."""

    name = "perception"
    unit = "frame"
    figure = "frames/s"
    sizes = Sizes(quick=1, usual=4)
    devices = ("cpu", "cuda")

    def __init__(self, configuration: Configuration = KITTI) -> None:
        """Detect with this network."""
        self.configuration: Final = configuration
        self.rivals = (
            PyTorchRival(configuration, self, compiled=False),
            PyTorchRival(configuration, self, compiled=True),
        )

    @cached_property
    def weights(self) -> NetworkWeights:
        """The network's weights, made on first use."""
        return network_weights(self.configuration)

    def generate(self, seed: int, size: int) -> DataSet:
        """Scans, padded with zeros to all rays of the sensor, and how many points each has."""
        points = np.zeros((size, scans.RAYS, 4), np.float32)
        counts = np.zeros(size, np.int32)
        for frame in range(size):
            scan = scans.scan(seed, frame)
            points[frame, : len(scan)], counts[frame] = scan, len(scan)
        return DataSet({"points": points, "counts": counts}, size)

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """The same on every device."""
        return SETTINGS

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """Our detector."""
        return DetectorProgram(data, device, settings, self.configuration, self.weights)

    def rows(self, data: DataSet) -> tuple[int, str]:
        """Scores, a box and a direction for every anchor of the map that the heads read."""
        network = self.configuration
        return data.units * network.map_rows * network.map_columns * network.anchors, "anchors"

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        """Maps against NumPy's; boxes against those that NumPy chooses from the program's own maps.

        Two scores that differ in the last bit would otherwise decide which of two boxes stays.
        """
        error, frames = 0.0, 0
        for frame, count in enumerate(data.arrays["counts"]):
            points = data.arrays["points"][frame, :count]
            expected = reference.head_maps(points, self.configuration, self.weights)
            maps = outputs["maps"][frame]
            if not np.isfinite(maps).all():
                return Verified(float("nan"), _TOLERANCE, _AGAINST, data.units)
            largest = np.abs(expected).max()
            error = max(error, float(np.abs(maps - expected).max() / largest))
            error = max(error, _box_error(outputs, frame, maps, self.configuration))
            frames += 1
        return Verified(error, _TOLERANCE, _AGAINST, frames)

    def work(self, data: DataSet) -> Work:
        """Products of all layers; scans and weights read once, and results of layers that fit into no cache."""
        configuration, grid = self.configuration, self.configuration.grid
        rows, columns = grid.rows, grid.columns
        inside = float(data.arrays["counts"].mean())
        flops = 2.0 * inside * POINT_INPUTS * configuration.pillar_channels
        moved = float(configuration.pillar_channels * rows * columns)
        channels, wide = configuration.pillar_channels, configuration.upsampled_channels
        weights = 0.0
        for block in configuration.blocks:
            rows, columns = rows // block.stride, columns // block.stride
            for _ in range(1 + block.layers):
                flops += 2.0 * 9 * channels * block.channels * rows * columns
                weights += 9 * channels * block.channels
                channels = block.channels
            moved += channels * rows * columns
            taps = block.upsampling**2
            flops += 2.0 * channels * wide * taps * rows * columns
            weights += channels * wide * taps
        places = configuration.map_rows * configuration.map_columns
        heads = sum(configuration.head_channels)
        inputs = wide * len(configuration.blocks)
        flops += 2.0 * inputs * heads * places
        weights += inputs * heads
        moved += heads * places + 4 * inside
        steps = _OTHER_STEPS + sum(1 + block.layers for block in configuration.blocks)
        moved_bytes = _FLOAT_BYTES * (data.units * moved + weights)
        return Work(data.units * flops, moved_bytes, float(steps))


_AGAINST: Final = "NumPy, layer by layer; boxes in double precision"


def _box_error(
    outputs: Arrays, frame: int, maps: np.ndarray, configuration: Configuration
) -> float:
    """The largest relative error of boxes and scores; infinite where other boxes were kept."""
    chosen = reference.choose_boxes(maps, configuration)
    anchors = outputs["anchors"][frame]
    count = len(chosen.anchors)
    same = np.array_equal(anchors[:count], chosen.anchors) and (anchors[count:] == -1).all()
    same = same and np.array_equal(outputs["labels"][frame, :count], chosen.labels)
    if not same:
        return float("inf")
    if count == 0:
        return 0.0
    boxes = np.abs(outputs["boxes"][frame, :count] - chosen.boxes) / (1.0 + np.abs(chosen.boxes))
    scores = np.abs(outputs["scores"][frame, :count] - chosen.scores)
    return float(max(boxes.max(), scores.max()))


WORKLOAD: Final = Perception()
