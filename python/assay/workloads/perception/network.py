"""The network on arrays of the runtime: pillars, backbone, heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from assay import ops, xp
from assay.ops import PillarGrid, Pillars
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.workloads.perception.configuration import Configuration
from assay.workloads.perception.weights import Layer, NetworkWeights

Weights = tuple[Array, Array]

CONCATENATED: Final = "concatenated"
SEPARATE: Final = "separate"


def pillar_grid(configuration: Configuration) -> PillarGrid:
    """The grid of a configuration, as operations take it."""
    grid = configuration.grid
    return PillarGrid(
        grid.rows,
        grid.columns,
        least=(grid.x_least, grid.y_least, grid.z_least),
        size=(grid.cell, grid.cell, grid.height),
    )


class PillarNet:
    """From points to the canvas, (channels, rows, columns)."""

    def __init__(self, configuration: Configuration, layer: Layer, device: Device) -> None:
        """Copy the weights to the device."""
        self._grid = pillar_grid(configuration)
        self._limits = configuration.grid
        self._weight, self._bias = _to_device(layer, device)
        self._packed = ops.pack(layer.weight, "f32", layer.weight.shape, device)
        shape = (configuration.pillar_channels, self._grid.rows, self._grid.columns)
        self._canvas = xp.empty(shape, dtype=xp.float32, device=device)

    def group(self, points: Array) -> Pillars:
        """The points of a frame by pillar."""
        limits = self._limits
        return ops.pillarize(
            points, self._grid, most_pillars=limits.most_pillars, most_points=limits.most_points
        )

    def group_sorted(self, points: Array) -> Pillars:
        """The same by array operations: points sorted by cell."""
        grid, limits = self._grid, self._limits
        device, cells = points.device, grid.rows * grid.columns
        place = [(points[:, axis] - grid.least[axis]) / grid.size[axis] for axis in range(3)]
        inside = (place[2] >= 0) & (place[2] < 1)
        for axis, extent in ((0, grid.columns), (1, grid.rows)):
            inside &= (place[axis] >= 0) & (place[axis] < extent)
        column, row = (
            xp.astype(xp.floor(xp.where(inside, place[axis], 0.0)), xp.int64) for axis in range(2)
        )
        cell = xp.where(inside, row * grid.columns + column, cells)
        order = xp.argsort(cell, stable=True)
        ends = xp.arange(cells + 1, dtype=xp.int64, device=device)
        begins = xp.searchsorted(xp.take(cell, order), ends)
        counts = begins[1:] - begins[:-1]
        (used,) = xp.nonzero(counts > 0)
        appearance = xp.argsort(xp.take(order, xp.take(begins, used)))
        used = xp.take(used, appearance[: limits.most_pillars])
        held = xp.minimum(xp.take(counts, used), limits.most_points)
        starts = xp.cumulative_sum(held, include_initial=True)
        slots = xp.arange(int(starts[-1]), dtype=xp.int64, device=device)
        pillar = xp.searchsorted(starts, slots, side="right") - 1
        source = xp.take(begins, xp.take(used, pillar)) + slots - xp.take(starts, pillar)
        missing = limits.most_pillars - used.shape[0]
        after = xp.full((missing,), int(starts[-1]), dtype=xp.int64, device=device)
        none = xp.full((missing,), -1, dtype=xp.int64, device=device)
        return Pillars(
            xp.take(points, xp.take(order, source), axis=0),
            xp.astype(xp.concat([starts, after]), xp.int32),
            xp.astype(xp.concat([used, none]), xp.int32),
        )

    def fused(self, pillars: Pillars) -> Array:
        """The canvas by one operation."""
        most = self._limits.most_points
        return ops.pillar_features(
            pillars, self._grid, self._weight, self._bias, most_points=most, out=self._canvas
        )

    def padded(self, pillars: Pillars) -> Array:
        """The same by array operations over every point that a pillar could have."""
        grid, most = self._limits, self._limits.most_points
        starts = pillars.starts
        counts = starts[1:] - starts[:-1]
        slots = xp.arange(most, dtype=xp.int32, device=self._canvas.device)
        there = slots[None, :] < counts[:, None]
        last = pillars.grouped.shape[0] - 1
        rows = xp.where(there, starts[:-1, None] + slots[None, :], last)
        points = xp.take(pillars.grouped, xp.reshape(rows, (-1,)), axis=0)
        points = xp.reshape(points, (-1, most, 4))
        mask = xp.astype(there, xp.float32)[:, :, None]
        coordinates = points[:, :, :3]
        held = xp.astype(xp.maximum(counts, 1), xp.float32)[:, None, None]
        mean = xp.sum(coordinates * mask, axis=1, keepdims=True) / held
        cells = xp.maximum(pillars.cells, 0)
        center = [
            (xp.astype(cells % grid.columns, xp.float32) + 0.5) * grid.cell + grid.x_least,
            (xp.astype(cells // grid.columns, xp.float32) + 0.5) * grid.cell + grid.y_least,
            xp.full_like(mean[:, 0, 0], grid.height / 2 + grid.z_least),
        ]
        from_center = coordinates - xp.stack(center, axis=1)[:, None, :]
        inputs = xp.concat([points, coordinates - mean, from_center], axis=2) * mask
        inputs = xp.reshape(inputs, (-1, inputs.shape[2]))
        features = ops.linear(inputs, self._packed, bias=self._bias, activation="relu")
        best = xp.max(xp.reshape(features, (-1, most, features.shape[1])), axis=1)
        (used,) = xp.nonzero(pillars.cells >= 0)
        self._canvas[...] = 0.0
        flat = xp.reshape(self._canvas, (self._canvas.shape[0], -1))
        flat[:, xp.take(pillars.cells, used)] = xp.take(best, used, axis=0).T
        return self._canvas


class Backbone:
    """Strided blocks of convolutions, upsampled to one map that the heads read."""

    def __init__(
        self, configuration: Configuration, weights: NetworkWeights, device: Device, heads: str
    ) -> None:
        """Copy the weights to the device, in the layout of the way that heads are computed."""
        self._configuration = configuration
        self._concatenated = heads == CONCATENATED
        self._blocks = [[_to_device(layer, device) for layer in block] for block in weights.blocks]
        self._upsampling = [_taps_first(layer, device) for layer in weights.upsampling]
        self._heads = _to_device(weights.heads, device)
        wide = configuration.upsampled_channels
        self._branch_heads: list[Array] = []
        for index, block in enumerate(configuration.blocks):
            part = weights.heads.weight[:, index * wide : (index + 1) * wide]
            taps = np.tile(part, (block.upsampling**2, 1, 1))
            self._branch_heads.append(xp.asarray(taps, device=device, copy=True))

    def blocks(self, canvas: Array) -> list[Array]:
        """The result of every block."""
        x, results = canvas, []
        for block, layers in zip(self._configuration.blocks, self._blocks, strict=True):
            stride = block.stride
            for weight, bias in layers:
                x = ops.conv2d(x, weight, bias, stride=stride, padding=1, activation="relu")
                stride = 1
            results.append(x)
        return results

    def heads(self, results: Sequence[Array]) -> Array:
        """Scores, boxes and directions, (channels, rows, columns)."""
        return self._of_all(results) if self._concatenated else self._of_each(results)

    def _upsampled(self, index: int, x: Array) -> Array:
        """All taps of a transposed convolution as one product, (taps times channels, places)."""
        weight, bias = self._upsampling[index]
        return ops.conv1d(
            xp.reshape(x, (x.shape[0], -1)), weight, bias, activation="relu", label="upsampling"
        )

    def _of_all(self, results: Sequence[Array]) -> Array:
        """Upsample every result, then one product over all channels."""
        maps = [
            _spread(self._upsampled(index, x), self._configuration.blocks[index].upsampling, x)
            for index, x in enumerate(results)
        ]
        every = xp.concat(maps, axis=0)
        channels, rows, columns = every.shape
        weight, bias = self._heads
        heads = ops.conv1d(xp.reshape(every, (channels, -1)), weight, bias, label="heads")
        return xp.reshape(heads, (-1, rows, columns))

    def _of_each(self, results: Sequence[Array]) -> Array:
        """The heads of every result before it is spread: a tenth of the channels moves.

        A place of the map is one tap of one place of each result, and the heads are linear.
        """
        _, bias = self._heads
        total: Array | None = None
        for index, x in enumerate(results):
            stride = self._configuration.blocks[index].upsampling
            part = ops.conv1d(
                self._upsampled(index, x),
                self._branch_heads[index],
                bias if total is None and stride == 1 else None,
                groups=stride**2,
                label="heads",
            )
            if total is None:
                total = _spread(part, stride, x)
                if stride != 1:
                    total += bias[:, None, None]
            else:
                _add_spread(total, part, stride, x)
        assert total is not None
        return total


def _to_device(layer: Layer, device: Device) -> Weights:
    return (
        xp.asarray(layer.weight, device=device, copy=True),
        xp.asarray(layer.bias, device=device, copy=True),
    )


def _taps_first(layer: Layer, device: Device) -> Weights:
    """A transposed convolution of stride and kernel alike as filters of each tap: (taps x filters, channels, 1)."""
    channels, _, stride, _ = layer.weight.shape
    weight = layer.weight.transpose(2, 3, 1, 0).reshape(-1, channels, 1)
    bias = np.tile(layer.bias, stride**2)
    return _to_device(Layer(np.ascontiguousarray(weight), bias), device)


def _by_place(taps: Array, stride: int, x: Array) -> Any:
    """Taps as (channels, rows, stride, columns, stride)."""
    rows, columns = x.shape[-2:]
    parts = xp.reshape(taps, (stride, stride, -1, rows, columns))
    return xp.permute_dims(parts, (2, 3, 0, 4, 1))


def _spread(taps: Array, stride: int, x: Array) -> Array:
    """Taps at their places of the larger map, (channels, rows, columns)."""
    rows, columns = x.shape[-2:]
    return xp.reshape(_by_place(taps, stride, x), (-1, rows * stride, columns * stride))


def _add_spread(total: Array, taps: Array, stride: int, x: Array) -> None:
    rows, columns = x.shape[-2:]
    view = xp.reshape(total, (total.shape[0], rows, stride, columns, stride))
    view += _by_place(taps, stride, x)
