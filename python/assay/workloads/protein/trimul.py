"""The public shapes of triangle multiplication (GPU MODE's task TriMul), each a case on a GPU.

Activations are bfloat16, as ours are there; a figure is the device time of one update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from assay import xp
from assay.load.workloads.measurement import Setting
from assay.runtime.array import Array
from assay.runtime.graphs import Graph, capture_graph
from assay.runtime.hardware import Device
from assay.workloads.contract import (
    Arrays,
    ArrayWorkload,
    DataSet,
    HostArray,
    Program,
    Sizes,
    Verified,
    Work,
    WorkloadSetting,
)
from assay.workloads.poisoning import fill_nan
from assay.workloads.protein import reference
from assay.workloads.protein.layers import Place
from assay.workloads.protein.triangle import FusedTriangleMultiplication
from assay.workloads.protein.trimul_rivals import UPDATES, CuEquivarianceTriangle, PyTorchTriangle
from assay.workloads.protein.weights import TriangleWeights, triangle_weights
from assay.workloads.random_numbers import RandomNumbers

HIDDEN: Final = 128
PUBLISHED_US: Final[Mapping[str, float]] = {
    "the best human's": 1371.0,
    "the best found by search": 1031.0,
}
"""Geometric means over the same shapes that were published for an H100; pairs and updates are float32 there
(`generate_input` in gpu-mode/reference-kernels, problems/bioml/trimul/reference.py)."""
_TOLERANCE: Final = 3e-2
"""Of the largest value: norms, factors, sums, gated sums and updates are each rounded to bfloat16."""
_AGAINST: Final = "NumPy in double precision at some pairs; all others are finite"
_CHECKED: Final = 24
"""Rows and columns whose pairs are verified: a whole update takes minutes in double precision."""
_RANDOM_ROWS: Final = 32
"""Rows that are drawn; others repeat them, shifted: drawing all would take longer than all else."""
_MASKED_PER_1024: Final = 300
_BF16_BYTES: Final = 2


class Shape(NamedTuple):
    """A case of the public task."""

    side: int
    batch: int
    channels: int
    is_masked: bool
    distribution: str


SHAPES: Final = (
    Shape(256, 2, 128, False, "normal"),
    Shape(768, 1, 128, False, "cauchy"),
    Shape(256, 2, 384, True, "normal"),
    Shape(512, 1, 128, False, "normal"),
    Shape(1024, 1, 128, False, "cauchy"),
    Shape(768, 1, 384, True, "normal"),
    Shape(1024, 1, 384, False, "normal"),
)
"""Those that are timed there, in its order."""


class TriMulProgram(Program):
    """Our kernels, the updates of a run captured as one graph; times are of events in the stream."""

    def __init__(self, data: DataSet, device: Device, weights: TriangleWeights) -> None:
        """Copy weights and pairs."""
        self._place = Place(device)
        self._update = FusedTriangleMultiplication(weights, self._place, incoming=False)
        self._loaded: DataSet | None = None
        self._graph: Graph | None = None
        self._written: Array | None = None
        self._out: Array | None = None
        self._seconds = 0.0
        self.load(data)

    def load(self, data: DataSet) -> None:
        """Copy pairs and capture their updates, which leave them as they are: of the same, once."""
        if data is self._loaded:
            return
        if self._graph is not None:
            self._graph.close()
        arrays, device = data.arrays, self._place.device
        pairs = self._place.array(arrays["pairs"])
        mask = self._place.array(arrays["mask"]) if "mask" in arrays else None
        room = self._update.room(pairs)
        written = xp.empty(pairs.shape, dtype=pairs.dtype, device=device)

        def updates() -> None:
            for _ in range(UPDATES):
                self._update.write(pairs, mask, room, written)

        # Kernels are compiled and algorithms of products chosen by a first run, not in a capture.
        updates()
        device.synchronize()
        self._graph = capture_graph(updates, device=device, label="updates")
        # What that run wrote is right already: outputs must be those of the graph.
        fill_nan(written)
        self._written, self._loaded = written, data

    def run(self) -> Mapping[str, float]:
        """Update the pairs some times."""
        assert self._graph is not None
        stream = self._place.device.current_stream()
        start = stream.record()
        self._graph.replay(stream)
        end = stream.record()
        end.synchronize()
        self._seconds = end.elapsed_ns(start) * 1e-9
        self._out = self._written
        return {}

    def own_seconds(self) -> float | None:
        """By the clock of the device."""
        return self._seconds

    def outputs(self) -> Arrays:
        """The last update, as float32."""
        if self._out is None:
            return {}
        return {"update": xp.astype(self._out, xp.float32).to_numpy()}

    def poison(self) -> None:
        """Overwrite what the graph writes, and what it wrote of data that were loaded before."""
        for array in (self._written, self._out):
            if array is not None:
                fill_nan(array)


class TriMul(ArrayWorkload):
    """Triangle multiplication of one shape, over outgoing edges."""

    name = "protein"
    unit = "sample"
    figure = "us"
    devices = ("cuda",)

    def __init__(self, shape: Shape, hidden: int = HIDDEN) -> None:
        """Measure this shape."""
        self.shape: Final = shape
        self.hidden: Final = hidden
        self.sizes = Sizes(shape.batch, shape.batch)
        self.case = (
            f"TriMul, {shape.side} residues, batch {shape.batch}, {shape.channels} channels, "
            f"{shape.distribution}{', masked' if shape.is_masked else ''}"
        )
        self.rivals = (
            PyTorchTriangle(self, compiled=False),
            PyTorchTriangle(self, compiled=True),
            CuEquivarianceTriangle(self),
        )

    @cached_property
    def weights(self) -> TriangleWeights:
        """Made on first use."""
        return triangle_weights(self.shape.channels, self.hidden)

    def title(self, size: int) -> str:
        """The shape."""
        return self.case

    def amount(self, data: DataSet) -> float:
        """Updates of a run."""
        return float(UPDATES)

    def generate(self, seed: int, size: int) -> DataSet:
        """Pairs, (batch, N, N, channels), that bfloat16 can hold, and a mask of edges."""
        side, batch, channels, is_masked, distribution = self.shape
        numbers = RandomNumbers(seed, side, channels)
        rows = min(_RANDOM_ROWS, side)
        count = rows * side * channels
        drawn = (
            numbers.normal(count)
            if distribution == "normal"
            else np.tan(math.pi * (numbers.uniform(count) - 0.5))
        )
        few = rounded(drawn.astype(np.float32)).reshape(rows, side, channels)
        pairs = np.empty((batch, side, side, channels), np.float32)
        for sample in range(batch):
            for row in range(side):
                shift = (row // rows) * 7 + 131 * sample
                pairs[sample, row] = np.roll(few[row % rows], shift, axis=0)
        arrays: dict[str, HostArray] = {"pairs": pairs}
        if is_masked:
            drawn_mask = numbers.integers(batch * side * side, 1_024) >= _MASKED_PER_1024
            arrays["mask"] = drawn_mask.astype(np.float32).reshape(batch, side, side)
        return DataSet(arrays, batch)

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """None."""
        return ()

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """Our kernels."""
        return TriMulProgram(data, device, self.weights)

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        """Some rows by some columns of every sample; what is not verified must be finite."""
        pairs, mask = data.arrays["pairs"], data.arrays.get("mask")
        update = outputs.get("update")
        if update is None or update.shape != pairs.shape or not np.isfinite(update).all():
            return Verified(math.nan, _TOLERANCE, _AGAINST, len(pairs))
        chosen = np.random.default_rng(self.shape.side)
        count = min(_CHECKED, self.shape.side)
        error = 0.0
        for sample, z in enumerate(pairs):
            rows, columns = (
                np.sort(chosen.choice(self.shape.side, count, replace=False)) for _ in range(2)
            )
            kept = None if mask is None else mask[sample]
            expected = reference.triangle_at(z, self.weights, rows, columns, kept)
            got = update[sample][np.ix_(rows, columns)]
            error = max(error, float(np.abs(got - expected).max() / np.abs(expected).max()))
        return Verified(error, _TOLERANCE, _AGAINST, len(pairs))

    def work(self, data: DataSet) -> Work:
        """Six products with weights and one of triangles; pairs read and written once."""
        side, batch, channels = self.shape[:3]
        places = batch * side * side
        flops = 2.0 * places * self.hidden * (6 * channels + side)
        return Work(UPDATES * flops, UPDATES * 2.0 * places * channels * _BF16_BYTES, 3.0)


def rounded(values: HostArray) -> HostArray:
    """Float32 values cut to what bfloat16 holds, so that every implementation reads the same."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    kept: HostArray = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return kept


def geometric_means(figures: Any) -> str:
    """The geometric mean of our updates and of each rival's, beside those that were published.

    Of a part of the shapes there is none to stand beside.
    """
    if len(figures) < len(SHAPES):
        return f"geometric mean: {len(figures)} of {len(SHAPES)} shapes were measured"
    names = [rival.name for rival in figures[0].rivals]
    shared = [name for name in names if all(_rival(figure, name) for figure in figures)]
    means = {"assay": [figure.value for figure in figures]}
    means |= {name: [_rival(figure, name).median for figure in figures] for name in shared}
    here = ", ".join(
        f"{name} {math.exp(sum(map(math.log, values)) / len(values)):,.0f} us"
        for name, values in means.items()
    )
    published = ", ".join(f"{who} {value:,.0f} us" for who, value in PUBLISHED_US.items())
    return f"geometric mean of {len(figures)} shapes: {here}; published for an H100, with pairs in float32: {published}"


def _rival(figure: Any, name: str) -> Any:
    return next((rival for rival in figure.rivals if rival.name == name), None)
