"""Our detector: a scan through pillars, backbone, heads and boxes; and the program over the frames of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from assay import xp
from assay.load.workloads.measurement import Setting
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Program, WorkloadSetting
from assay.workloads.perception import stages
from assay.workloads.perception.boxes import Boxes, BoxHead
from assay.workloads.perception.configuration import Configuration
from assay.workloads.perception.network import CONCATENATED, SEPARATE, Backbone, PillarNet
from assay.workloads.perception.stages import Detections, StageTimes
from assay.workloads.perception.weights import NetworkWeights

SETTINGS: Final = (
    WorkloadSetting(
        name="grouping",
        meaning="how points are grouped by pillar",
        mechanism="one pass over the points counts and places them; sorting reads and writes them many times",
        values=("sorted", "counted"),
        plain="sorted",
        default="counted",
    ),
    WorkloadSetting(
        name="features",
        meaning="how the features of pillars are computed",
        mechanism="one operation reads each point once; padded arrays hold every point that a pillar could have",
        values=("padded", "fused"),
        plain="padded",
        default="fused",
        keeps="rounding",
    ),
    WorkloadSetting(
        name="heads",
        meaning="whether the heads read one map of all upsampled channels, or each block's result",
        mechanism="the heads are linear: each block's part is added, and no map of all channels is written and read",
        values=(CONCATENATED, SEPARATE),
        plain=CONCATENATED,
        default=SEPARATE,
        keeps="rounding",
    ),
    WorkloadSetting(
        name="decoding",
        meaning="which anchors become boxes: all, or those whose score passes",
        mechanism="a box is computed for candidates only, some in a hundred anchors",
        values=("all", "candidates"),
        plain="all",
        default="candidates",
    ),
)
"""What `assay run` may change."""


_DEFAULTS: Final = MappingProxyType({setting.name: setting.default for setting in SETTINGS})


class Detector:
    """The network on one device: points of a scan in, boxes out."""

    def __init__(
        self,
        configuration: Configuration,
        weights: NetworkWeights,
        device: Device,
        settings: Mapping[str, Setting] = _DEFAULTS,
    ) -> None:
        """Copy weights to the device."""
        self._device = device
        self._counted = settings["grouping"] == "counted"
        self._fused = settings["features"] == "fused"
        self._pillars = PillarNet(configuration, weights.pillars, device)
        self._backbone = Backbone(configuration, weights, device, str(settings["heads"]))
        self._boxes = BoxHead(configuration, device, decode_all=settings["decoding"] == "all")

    def boxes(self, points: Any) -> Boxes:
        """The boxes of a scan: points (count, 4), x, y, z in meters and intensity, as `read_scan` gives them."""
        on_device = xp.asarray(points, dtype=xp.float32, device=self._device, copy=True)
        return self.detect(on_device, StageTimes())[1]

    def detect(self, points: Array, times: StageTimes) -> tuple[Array, Boxes]:
        """The maps of the heads and the boxes of points in the device's memory."""
        with times.stage(stages.PILLARS):
            pillars = (
                self._pillars.group(points) if self._counted else self._pillars.group_sorted(points)
            )
            self._device.synchronize()
        with times.stage(stages.FEATURES):
            canvas = self._pillars.fused(pillars) if self._fused else self._pillars.padded(pillars)
            self._device.synchronize()
        with times.stage(stages.NETWORK):
            maps = self._backbone.heads(self._backbone.blocks(canvas))
            self._device.synchronize()
        with times.stage(stages.BOXES):
            return maps, self._boxes.choose(maps)


class DetectorProgram(Program):
    """The detector over the scans of a data set."""

    def __init__(
        self,
        data: DataSet,
        device: Device,
        settings: Mapping[str, Setting],
        configuration: Configuration,
        weights: NetworkWeights,
    ) -> None:
        """Copy weights and scans to the device."""
        self._device = device
        self._detector = Detector(configuration, weights, device, settings)
        self._scans: list[Array] = []
        self._detections = Detections(len(data.arrays["counts"]), configuration)
        self._maps: list[Array] = []
        self.load(data)

    def load(self, data: DataSet) -> None:
        """Copy other scans."""
        scans = zip(data.arrays["points"], data.arrays["counts"], strict=True)
        self._scans = [
            xp.asarray(points[:count], device=self._device, copy=True) for points, count in scans
        ]

    def run(self) -> Mapping[str, float]:
        """Boxes of all frames."""
        times = StageTimes()
        self._maps = []
        for frame, points in enumerate(self._scans):
            maps, boxes = self._detector.detect(points, times)
            self._detections.store(frame, boxes)
            self._maps.append(maps)
        return times.seconds

    def outputs(self) -> Arrays:
        """Maps and boxes of all frames."""
        for frame, maps in enumerate(self._maps):
            self._detections.maps[frame] = maps.to_numpy()
        return self._detections.arrays()

    def poison(self) -> None:
        """Overwrite maps and boxes."""
        self._detections.poison()
        self._maps = []
