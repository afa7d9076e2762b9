"""Times the three launches of a triangle multiplication on a GPU, beside what their work would take at peak.

    python scripts/measure_triangles.py --device cuda:0

A line is a launch of a public shape (side x batch x channels, with 128 hidden ones): microseconds, TB/s, and the floors
of its products in bfloat16 and of its bytes, once each. Operands stay in L2 where they fit. Nothing is verified here:
tests/gpu does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import graph_timing
from assay import ops, xp
from assay.runtime import Array, Device
from assay.workloads.protein.trimul import HIDDEN, SHAPES, Shape


class Launch(NamedTuple):
    """A launch, and the least it can do."""

    name: str
    call: Callable[[], object]
    flops: float
    bytes: float


def launches(shape: Shape, device: Device) -> Iterator[Launch]:
    """Gated factors, their products, and the update."""
    random = np.random.default_rng(1)

    def noise(*extents: int, scale: float = 1.0) -> Array:
        values = random.standard_normal(extents, np.float32) * np.float32(scale)
        return xp.astype(xp.asarray(values, device=device, copy=True), xp.bfloat16)

    batch, side, channels = shape.batch, shape.side, shape.channels
    places = batch * side * side
    pairs, out = (noise(batch, side, side, channels) for _ in range(2))
    factors = noise(batch, 2 * HIDDEN, side, side)
    sums = noise(batch, HIDDEN, side, side)
    pair_norm, sum_norm = ((noise(width), noise(width)) for width in (channels, HIDDEN))
    weights, gates = (noise(2 * HIDDEN, channels, scale=channels**-0.5) for _ in range(2))
    out_gates = noise(HIDDEN, channels, scale=channels**-0.5)
    out_weights = noise(channels, HIDDEN, scale=HIDDEN**-0.5)
    mask = noise(batch, side, side) if shape.is_masked else None

    def multiply() -> None:
        for sample in range(batch):
            left, right = factors[sample, :HIDDEN], factors[sample, HIDDEN:]
            ops.batched_matmul(left, xp.matrix_transpose(right), sums[sample])

    name = f"{side} x {batch} x {channels}"
    yield Launch(
        f"{name}, factors",
        lambda: ops.channel_projection(pairs, pair_norm, weights, gates, mask=mask, out=factors),
        8.0 * places * HIDDEN * channels,
        2.0 * places * (channels + 2 * HIDDEN),
    )
    yield Launch(f"{name}, products", multiply, 2.0 * places * side * HIDDEN, 6.0 * places * HIDDEN)
    yield Launch(
        f"{name}, update",
        lambda: ops.triangle_update(
            sums, pairs, sum_norm=sum_norm, pair_norm=pair_norm, gates=out_gates, weights=out_weights,
            out=out,
        ),
        4.0 * places * HIDDEN * channels,
        2.0 * places * (2 * channels + HIDDEN),
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--tflops", type=float, default=790.0, help="dense bfloat16; an H200's: 790"
    )
    parser.add_argument("--tb-per-s", type=float, default=4.0, help="of memory; an H200's: 4.0")
    parser.add_argument("--channels", type=int, help="shapes of so many channels alone")
    given = parser.parse_args()
    device = Device(given.device, pool_bytes=16 << 30)
    print(f"{'launch':28} {'us':>7} {'TB/s':>5} {'products':>9} {'bytes':>6}")
    for shape in SHAPES:
        if given.channels not in (None, shape.channels):
            continue
        for launch in launches(shape, device):
            took = graph_timing.microseconds(launch.call, device)
            products, moved = (
                launch.flops / given.tflops / 1e6,
                launch.bytes / given.tb_per_s / 1e6,
            )
            rate = launch.bytes / took / 1e6
            print(f"{launch.name:28} {took:7.1f} {rate:5.2f} {products:9.1f} {moved:6.1f}")


if __name__ == "__main__":
    main()
