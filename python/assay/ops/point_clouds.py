"""Point clouds as pillars, features of pillars, and non-maximum suppression of rotated boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.errors import InputError
from assay.ops import counting
from assay.ops.counting import Count
from assay.ops.operands import F32, I32, call, check, nbytes, result
from assay.runtime import dtypes
from assay.runtime.array import Array

_AXES: Final = 3
_POINT: Final = 4
_INPUTS: Final = 10
_BOX: Final = 5


@dataclass(frozen=True, slots=True)
class PillarGrid:
    """Cells over the ground, `rows` along y by `columns` along x, each of one height.

    Counts are (rows, columns), so y before x; coordinates are (x, y, z).
    """

    rows: int
    columns: int
    least: tuple[float, float, float]
    """The least x, y and z."""
    size: tuple[float, float, float]
    """Extents of a cell along x, y and z."""

    def __post_init__(self) -> None:
        """Refuse counts and coordinates in each other's place."""
        for name, count in (("rows", self.rows), ("columns", self.columns)):
            if not isinstance(count, int):
                raise InputError(f"PillarGrid: expected {name} as an integer, got {count!r}")
        for name, numbers in (("least", self.least), ("size", self.size)):
            if not isinstance(numbers, tuple | list) or len(numbers) != _AXES:
                raise InputError(f"PillarGrid: expected {name} as (x, y, z), got {numbers!r}")

    def numbers(self) -> tuple[float, ...]:
        """The floating-point arguments of an operation."""
        return (*map(float, self.least), *map(float, self.size))


class Pillars(NamedTuple):
    """Points grouped by cell, as `pillarize` gives them."""

    grouped: Array
    """Points, (count, 4), pillar by pillar; zero beyond the last."""
    starts: Array
    """Where each pillar begins, and where the last ends, (pillars + 1) of int32."""
    cells: Array
    """The cell of each pillar, row times columns plus column; -1 where there are fewer."""


def pillarize(
    points: Array,
    grid: PillarGrid,
    *,
    most_pillars: int,
    most_points: int,
    label: str | None = None,
) -> Pillars:
    """Group points, (count, 4): x, y, z and intensity, by cell of a grid.

    Pillars are in the order of their first points, and hold their first `most_points` points; points
    outside of the grid, of pillars beyond `most_pillars`, and with a coordinate that is NaN or infinite,
    are dropped.

    >>> import assay.xp as xp
    >>> points = xp.asarray([[0.5, 0.5, 0, 1], [9, 9, 0, 1], [0.2, 0.1, 0, 2]], dtype=xp.float32)
    >>> grid = PillarGrid(2, 2, least=(0.0, 0.0, -1.0), size=(1.0, 1.0, 2.0))
    >>> pillars = pillarize(points, grid, most_pillars=2, most_points=8)
    >>> pillars.starts.tolist(), pillars.cells.tolist()
    ([0, 2, 2], [0, -1])
    """
    name = "pillarize"
    count = check(name, "points", points, (None, _POINT), F32).shape[0]
    for what, value in (("most_pillars", most_pillars), ("most_points", most_points)):
        if value < 1:
            raise InputError(f"{name}: expected {what} of 1 or more, got {value}")
    device = points.device
    grouped = result(name, device, None, (count, _POINT))
    starts = result(name, device, None, (most_pillars + 1,), dtypes.int32)
    cells = result(name, device, None, (most_pillars,), dtypes.int32)
    if count == 0:
        starts[...], cells[...] = 0, -1
        return Pillars(grouped, starts, cells)
    call(
        name,
        [points, grouped, starts, cells],
        (count, grid.rows, grid.columns, most_pillars, most_points, *grid.numbers()),
        device,
        counting.memory_traffic(nbytes(points, grouped, starts, cells)),
        label,
    )
    return Pillars(grouped, starts, cells)


def pillar_features(
    pillars: Pillars,
    grid: PillarGrid,
    weight: Array,
    bias: Array,
    *,
    most_points: int,
    out: Array | None = None,
    label: str | None = None,
) -> Array:
    """The feature net of PointPillars, scattered to its cells: (channels, rows, columns).

    At the cell of each pillar is the maximum over its points of relu(weight @ inputs + bias), where the
    inputs of a point are itself, its offset from the mean of its pillar and that from the pillar's
    center, 10 in all. A pillar of fewer than `most_points` points has zero inputs besides, as in the
    published network, which pads. Other cells are zero.
    """
    name = "pillar_features"
    count = check(name, "grouped", pillars.grouped, (None, _POINT), F32).shape[0]
    most_pillars = check(name, "cells", pillars.cells, (None,), I32).shape[0]
    check(name, "starts", pillars.starts, (most_pillars + 1,), I32)
    channels = check(name, "weight", weight, (None, _INPUTS), F32).shape[0]
    check(name, "bias", bias, (channels,), F32)
    out = result(name, weight.device, out, (channels, grid.rows, grid.columns))
    if count == 0:
        out[...] = 0.0
        return out
    products = counting.gemm(count, channels, _INPUTS, weight.dtype.itemsize)
    call(
        name,
        [*pillars, weight, bias, out],
        (count, grid.rows, grid.columns, most_pillars, most_points, channels, *grid.numbers()),
        weight.device,
        Count(products.flops, nbytes(*pillars, weight, bias, out)),
        label,
    )
    return out


def rotated_nms(boxes: Array, threshold: float, *, most: int, label: str | None = None) -> Array:
    """Non-maximum suppression of boxes in the order of their scores, best first.

    `boxes` is (count, 5): center x and y, length along the heading, width, and heading in radians.
    The result has the indices of boxes whose intersection over union with every box kept before is at
    most the threshold, then -1; `most` in all.

    >>> import assay.xp as xp
    >>> boxes = xp.asarray([[0, 0, 4, 2, 0], [0.1, 0, 2, 4, 1.5708], [9, 0, 4, 2, 0]], dtype=xp.float32)
    >>> rotated_nms(boxes, 0.5, most=3).tolist()
    [0, 2, -1]
    """
    name = "rotated_nms"
    count = check(name, "boxes", boxes, (None, _BOX), F32).shape[0]
    if most < 1:
        raise InputError(f"{name}: expected most of 1 or more, got {most}")
    kept = result(name, boxes.device, None, (most,), dtypes.int32)
    if count == 0:
        kept[...] = -1
        return kept
    call(
        name,
        [boxes, kept],
        (count, most, float(threshold)),
        boxes.device,
        counting.memory_traffic(nbytes(boxes, kept)),
        label,
    )
    return kept
