"""The same detector by PyTorch: spconv's voxelization where it is installed, convolutions of the library in float32."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, Missing, Program, WorkloadRival
from assay.workloads.perception import reference, stages
from assay.workloads.perception.boxes import Boxes
from assay.workloads.perception.configuration import POINT_INPUTS, Configuration
from assay.workloads.perception.stages import Detections, StageTimes
from assay.workloads.perception.weights import NetworkWeights


class _HasWeights(Protocol):
    @property
    def weights(self) -> NetworkWeights: ...


class PyTorchRival(WorkloadRival):
    """Eager PyTorch, channels last, or the same network through `torch.compile`."""

    packages = MappingProxyType({"torch": None, "spconv": None})
    install = "pip install torch spconv"
    note = "rotated suppression by NumPy: PyTorch has none for CPUs"

    def __init__(
        self, configuration: Configuration, source: _HasWeights, *, compiled: bool
    ) -> None:
        """Detect with this network, whose weights are made on first use."""
        self.name = "torch.compile" if compiled else "PyTorch"
        self._configuration = configuration
        self._source = source
        self._compiled = compiled

    def prepare(self, data: DataSet, device: Device) -> Program | Missing:
        """The network with its weights, on the CPU or the GPU that the device names."""
        try:
            import torch
        except ModuleNotFoundError:
            return Missing("not installed")
        place = "cuda" if str(device).startswith("cuda") else "cpu"
        if place == "cuda" and not torch.cuda.is_available():
            return Missing(f"has no device {device}")
        return _TorchProgram(
            torch, data, place, self._configuration, self._source.weights, compiled=self._compiled
        )


class _TorchProgram(Program):
    def __init__(
        self,
        torch: Any,
        data: DataSet,
        place: str,
        configuration: Configuration,
        weights: NetworkWeights,
        *,
        compiled: bool,
    ) -> None:
        self._torch, self._place, self._configuration = torch, place, configuration
        # Products in float32, as ours are, and not in TF32 or bfloat16.
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        self._voxels = _spconv_voxels(configuration)
        with torch.inference_mode(False):
            self._features = _feature_net(torch, configuration, weights).to(place)
            network = _network(torch, configuration, weights).to(place)
            network = network.to(memory_format=torch.channels_last)
        if compiled:
            import torch._inductor.config as inductor

            inductor.freezing = True
            network = torch.compile(network)
        self._network = network
        self._detections = Detections(len(data.arrays["counts"]), configuration)
        self._scans: list[Any] = []
        self._maps: list[Any] = []
        self.load(data)

    def load(self, data: DataSet) -> None:
        scans = zip(data.arrays["points"], data.arrays["counts"], strict=True)
        self._scans = [points[:count].copy() for points, count in scans]
        if self._voxels is None:
            # Where ours are before the clock starts; spconv takes arrays of the host.
            self._scans = [self._torch.from_numpy(scan).to(self._place) for scan in self._scans]

    def run(self) -> Mapping[str, float]:
        torch, times = self._torch, StageTimes()
        self._maps = []
        with torch.inference_mode() if self._place == "cpu" else torch.no_grad():
            for frame, points in enumerate(self._scans):
                with times.stage(stages.PILLARS):
                    voxels, cells, counts = self._group(points)
                    self._wait()
                with times.stage(stages.FEATURES):
                    canvas = self._features(voxels, cells, counts)
                    canvas = canvas.contiguous(memory_format=torch.channels_last)
                    self._wait()
                with times.stage(stages.NETWORK):
                    maps = self._network(canvas)[0]
                    self._wait()
                with times.stage(stages.BOXES):
                    host = maps.contiguous().cpu().numpy()
                    chosen = reference.choose_boxes(host, self._configuration)
                    self._detections.store(
                        frame,
                        Boxes(
                            chosen.boxes.astype(np.float32),
                            chosen.scores.astype(np.float32),
                            chosen.labels.astype(np.int32),
                            chosen.anchors.astype(np.int32),
                        ),
                    )
                self._maps.append(host)
        return times.seconds

    def outputs(self) -> Arrays:
        for frame, maps in enumerate(self._maps):
            self._detections.maps[frame] = maps
        return self._detections.arrays()

    def poison(self) -> None:
        self._detections.poison()
        self._maps = []

    def _wait(self) -> None:
        if self._place == "cuda":
            self._torch.cuda.synchronize()

    def _group(self, points: Any) -> tuple[Any, Any, Any]:
        """Points of pillars, (pillars, most points, 4), their cells and counts."""
        torch, grid = self._torch, self._configuration.grid
        if self._voxels is not None:
            voxels, places, counts = self._voxels(points)
            arrays = (voxels, places[:, 1] * grid.columns + places[:, 2], counts)
            return tuple(torch.from_numpy(np.array(array)).to(self._place) for array in arrays)
        cloud = points
        least = torch.tensor([grid.x_least, grid.y_least, grid.z_least], device=self._place)
        size = torch.tensor([grid.cell, grid.cell, grid.height], device=self._place)
        places = torch.floor((cloud[:, :3] - least) / size).long()
        extents = torch.tensor([grid.columns, grid.rows, 1], device=self._place)
        inside = ((places >= 0) & (places < extents)).all(dim=1)
        cloud, places = cloud[inside], places[inside]
        cells = places[:, 1] * grid.columns + places[:, 0]
        order = torch.argsort(cells, stable=True)
        unique, counts = torch.unique_consecutive(cells[order], return_counts=True)
        starts = torch.cumsum(counts, 0) - counts
        pillar = torch.repeat_interleave(torch.arange(len(unique), device=self._place), counts)
        slot = torch.arange(len(order), device=self._place) - starts[pillar]
        # Where there are too many pillars, those that appear first in the scan are kept.
        rank = torch.argsort(torch.argsort(order[starts]))
        kept = (slot < grid.most_points) & (rank[pillar] < grid.most_pillars)
        voxels = torch.zeros((len(unique), grid.most_points, 4), device=self._place)
        voxels[pillar[kept], slot[kept]] = cloud[order[kept]]
        chosen = rank < grid.most_pillars
        return voxels[chosen], unique[chosen], counts.clamp(max=grid.most_points)[chosen]


def _spconv_voxels(configuration: Configuration) -> Any:
    """Voxelization in C++ by spconv, or None where it is not installed."""
    try:
        tensorview = importlib.import_module("cumm.tensorview")
        utilities = importlib.import_module("spconv.utils")
    except ImportError:
        return None
    grid = configuration.grid
    x_most = grid.x_least + grid.columns * grid.cell
    y_most = grid.y_least + grid.rows * grid.cell
    generator = utilities.Point2VoxelCPU3d(
        vsize_xyz=[grid.cell, grid.cell, grid.height],
        coors_range_xyz=[
            *(grid.x_least, grid.y_least, grid.z_least),
            *(x_most, y_most, grid.z_least + grid.height),
        ],
        num_point_features=4,
        max_num_voxels=grid.most_pillars,
        max_num_points_per_voxel=grid.most_points,
    )

    def group(points: Any) -> tuple[Any, Any, Any]:
        parts = generator.point_to_voxel(tensorview.from_numpy(points))
        voxels, places, counts = (part.numpy() for part in parts)
        return voxels, places, counts

    return group


def _feature_net(torch: Any, configuration: Configuration, weights: NetworkWeights) -> Any:
    """Padded points to the canvas, as the published network computes it."""
    grid = configuration.grid

    class FeatureNet(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(POINT_INPUTS, configuration.pillar_channels)
            _fill(torch, self.layer, weights.pillars)
            self.slots: Any
            self.register_buffer("slots", torch.arange(grid.most_points))

        def forward(self, voxels: Any, cells: Any, counts: Any) -> Any:
            xyz = voxels[:, :, :3]
            mean = xyz.sum(dim=1, keepdim=True) / counts.view(-1, 1, 1)
            x = (cells % grid.columns + 0.5) * grid.cell + grid.x_least
            y = (cells // grid.columns + 0.5) * grid.cell + grid.y_least
            z = torch.full_like(x, grid.z_least + grid.height / 2)
            center = torch.stack([x, y, z], dim=1).to(voxels.dtype)[:, None]
            inputs = torch.cat([voxels, xyz - mean, xyz - center], dim=2)
            inputs = inputs * (self.slots < counts[:, None])[:, :, None]
            features = torch.relu(self.layer(inputs)).max(dim=1).values
            canvas = voxels.new_zeros((features.shape[1], grid.rows * grid.columns))
            canvas[:, cells.long()] = features.t()
            return canvas.view(1, -1, grid.rows, grid.columns)

    return FeatureNet().eval()


def _fill(torch: Any, module: Any, layer: Any) -> None:
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(layer.weight).view_as(module.weight))
        module.bias.copy_(torch.from_numpy(layer.bias))


def _network(torch: Any, configuration: Configuration, weights: NetworkWeights) -> Any:
    nn = torch.nn

    class Network(nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.upsampling = nn.ModuleList(), nn.ModuleList()
            channels, wide = configuration.pillar_channels, configuration.upsampled_channels
            parts = zip(configuration.blocks, weights.blocks, weights.upsampling, strict=True)
            for block, layers, upsampling in parts:
                modules: list[Any] = []
                for index, layer in enumerate(layers):
                    stride = block.stride if index == 0 else 1
                    modules.append(nn.Conv2d(channels, block.channels, 3, stride, 1))
                    _fill(torch, modules[-1], layer)
                    modules.append(nn.ReLU(inplace=True))
                    channels = block.channels
                self.blocks.append(nn.Sequential(*modules))
                stride = block.upsampling
                up = nn.ConvTranspose2d(channels, wide, stride, stride)
                _fill(torch, up, upsampling)
                self.upsampling.append(nn.Sequential(up, nn.ReLU(inplace=True)))
            inputs = wide * len(configuration.blocks)
            self.heads = nn.Conv2d(inputs, sum(configuration.head_channels), 1)
            _fill(torch, self.heads, weights.heads)

        def forward(self, x: Any) -> Any:
            maps = []
            for block, upsampling in zip(self.blocks, self.upsampling, strict=True):
                x = block(x)
                maps.append(upsampling(x))
            return self.heads(torch.cat(maps, dim=1))

    return Network().eval()
