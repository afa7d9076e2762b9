"""Times every convolution of the perception workload's network on a GPU, beside what its work would take at peak.

    python scripts/measure_convolutions.py --device cuda:0

A line is a layer: microseconds, TFLOP/s, and the floors of its products as three of TF32 and of its bytes.
Operands of one layer stay in L2 where they fit, as in the network, where the layer before wrote them. Nothing is
verified here: tests/gpu does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import graph_timing
from assay import ops, xp
from assay.runtime import Array, Device
from assay.workloads.perception.configuration import KITTI, Configuration


class Layer(NamedTuple):
    """A convolution of one frame."""

    name: str
    channels: int
    rows: int
    columns: int
    filters: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    activation: str | None = "relu"

    @property
    def places(self) -> int:
        """Places of the result."""
        return self.rows // self.stride * (self.columns // self.stride)

    @property
    def depth(self) -> int:
        """Products of one result."""
        return self.channels // self.groups * self.kernel**2

    @property
    def flops(self) -> float:
        """Additions and multiplications."""
        return 2.0 * self.filters * self.places * self.depth

    @property
    def bytes(self) -> float:
        """Of x, weights and the result, once each."""
        x = self.channels * self.rows * self.columns
        return 4.0 * (x + self.filters * self.depth + self.filters * self.places)


def layers(configuration: Configuration) -> Iterator[Layer]:
    """The convolutions of a frame; of those alike, one."""
    rows, columns = configuration.grid.rows, configuration.grid.columns
    channels, wide = configuration.pillar_channels, configuration.upsampled_channels
    heads = sum(configuration.head_channels)
    for number, block in enumerate(configuration.blocks, 1):
        wider = block.channels
        yield Layer(f"block {number}, first", channels, rows, columns, wider, 3, block.stride)
        rows, columns, channels = rows // block.stride, columns // block.stride, wider
        yield Layer(f"block {number}, {block.layers} more", channels, rows, columns, wider, 3)
        taps = block.upsampling**2
        yield Layer(f"upsampling {number}", channels, rows, columns, wide * taps)
        yield Layer(
            f"heads {number}", wide * taps, rows, columns, heads * taps, groups=taps, activation=None
        )  # fmt: skip


def microseconds(layer: Layer, device: Device) -> float:
    """The median time of a call."""
    random = np.random.default_rng(1)

    def noise(*shape: int, scale: float = 1.0) -> Array:
        values = random.standard_normal(shape, np.float32) * np.float32(scale)
        return xp.asarray(values, device=device, copy=True)

    x = noise(layer.channels, layer.rows, layer.columns)
    kernel = (layer.kernel, layer.kernel)
    weight = noise(layer.filters, layer.channels // layer.groups, *kernel, scale=layer.depth**-0.5)
    bias = noise(layer.filters)
    places = (layer.rows // layer.stride, layer.columns // layer.stride)
    out = xp.empty((layer.filters, *places), dtype=xp.float32, device=device)

    def call() -> None:
        ops.conv2d(
            x, weight, bias, stride=layer.stride, padding=layer.kernel // 2, groups=layer.groups,
            activation=layer.activation, out=out,
        )  # fmt: skip

    return graph_timing.microseconds(call, device)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--tflops", type=float, default=165.0, help="dense TF32 over three; an H200's: 165"
    )
    parser.add_argument("--tb-per-s", type=float, default=4.0, help="of memory; an H200's: 4.0")
    given = parser.parse_args()
    device = Device(given.device, pool_bytes=2 << 30)
    print(f"{'layer':16} {'us':>7} {'TFLOP/s':>8} {'products':>9} {'bytes':>6}")
    for layer in layers(KITTI):
        took = microseconds(layer, device)
        products, moved = (layer.flops / given.tflops / 1e6, layer.bytes / given.tb_per_s / 1e6)
        print(
            f"{layer.name:16} {took:7.1f} {layer.flops / took / 1e6:8.1f} {products:9.1f} {moved:6.1f}"
        )


if __name__ == "__main__":
    main()
