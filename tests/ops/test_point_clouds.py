"""Pillars, their features and suppression of rotated boxes, against NumPy and shapes of known overlap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay import ops, xp
from assay.errors import AssayError, InputError, ShapeError
from assay.workloads.perception import reference
from assay.workloads.perception.network import pillar_grid
from assay.workloads.perception.weights import Layer
from small_detector import SMALL

GRID = ops.PillarGrid(2, 3, least=(0.0, 0.0, -1.0), size=(1.0, 1.0, 2.0))


def test_pillars_are_in_the_order_of_the_scan() -> None:
    points = np.array(
        [
            [2.5, 1.5, 0.0, 1.0],  # cell 5
            [0.5, 0.5, 0.0, 2.0],  # cell 0
            [math.nan, 0.5, 0.0, 9.0],
            [-0.1, 0.5, 0.0, 9.0],
            [3.0, 0.5, 0.0, 9.0],
            [0.5, 0.5, 1.0, 9.0],
            [math.inf, 0.5, 0.0, 9.0],
            [2.1, 1.9, 0.9, 3.0],  # cell 5
            [2.2, 1.2, 0.9, 4.0],  # cell 5, one too many
            [1.0, 0.0, -1.0, 5.0],  # cell 1
            [0.0, 1.0, 0.0, 6.0],  # cell 3, a pillar too many
        ],
        np.float32,
    )
    pillars = ops.pillarize(xp.asarray(points, copy=True), GRID, most_pillars=3, most_points=2)
    assert pillars.cells.tolist() == [5, 0, 1]
    assert pillars.starts.tolist() == [0, 2, 3, 4]
    grouped = pillars.grouped.to_numpy()
    assert grouped[:4, 3].tolist() == [1.0, 3.0, 2.0, 5.0]
    assert not grouped[4:].any()


@pytest.mark.parametrize("channels", [16, 32, 48, 64, 80])
def test_features_are_those_of_the_padded_network(channels: int) -> None:
    generator = np.random.default_rng(channels)
    spread = np.array([30, 20, 4, 1], np.float32)
    points = generator.random((5_000, 4), np.float32) * spread + np.array(
        [0, -10, -3, 0], np.float32
    )
    layer = Layer(
        generator.standard_normal((channels, 10)).astype(np.float32),
        generator.standard_normal(channels).astype(np.float32),
    )
    expected = reference.canvas(points, SMALL, layer)
    grid, limits = pillar_grid(SMALL), SMALL.grid
    pillars = ops.pillarize(
        xp.asarray(points, copy=True),
        grid,
        most_pillars=limits.most_pillars,
        most_points=limits.most_points,
    )
    canvas = ops.pillar_features(
        pillars,
        grid,
        xp.asarray(layer.weight, copy=True),
        xp.asarray(layer.bias, copy=True),
        most_points=limits.most_points,
    ).to_numpy()
    np.testing.assert_allclose(canvas, expected, atol=2e-4)
    assert (canvas == 0).all(axis=0).sum() == (expected == 0).all(axis=0).sum()


def test_no_points_make_an_empty_canvas() -> None:
    pillars = ops.pillarize(xp.empty((0, 4), dtype=xp.float32), GRID, most_pillars=2, most_points=2)
    assert (pillars.starts.tolist(), pillars.cells.tolist()) == ([0, 0, 0], [-1, -1])
    weight, bias = xp.ones((16, 10), dtype=xp.float32), xp.ones((16,), dtype=xp.float32)
    assert not ops.pillar_features(pillars, GRID, weight, bias, most_points=2).to_numpy().any()


def test_points_without_a_place_are_dropped() -> None:
    nan, inf = float("nan"), float("inf")
    rows = [[nan, 0.5, 0.0, 1.0], [0.5, inf, 0.0, 1.0], [0.5, 0.5, nan, 1.0], [0.5, 0.5, 0.0, 1.0]]
    pillars = ops.pillarize(xp.asarray(rows, dtype=xp.float32), GRID, most_pillars=2, most_points=4)
    assert (pillars.starts.tolist(), pillars.cells.tolist()) == ([0, 1, 1], [0, -1])


def test_pillars_that_do_not_fit_the_grid_are_refused() -> None:
    points = xp.asarray([[2.5, 1.5, 0.0, 1.0]], dtype=xp.float32)
    pillars = ops.pillarize(points, GRID, most_pillars=1, most_points=2)
    weight, bias = xp.ones((16, 10), dtype=xp.float32), xp.ones((16,), dtype=xp.float32)
    smaller = ops.PillarGrid(1, 1, GRID.least, GRID.size)
    with pytest.raises(AssayError, match="inside of the grid"):
        ops.pillar_features(pillars, smaller, weight, bias, most_points=2)
    with pytest.raises(AssayError, match="multiple of 16"):
        ops.pillar_features(pillars, GRID, weight[:3], bias[:3], most_points=2)
    with pytest.raises(AssayError, match="cells"):
        ops.pillarize(
            points, ops.PillarGrid(0, 1, GRID.least, GRID.size), most_pillars=1, most_points=1
        )
    with pytest.raises(InputError, match=r"rows as an integer, got \(0.0, 0.0, -1.0\)"):
        ops.PillarGrid(GRID.least, GRID.size, 2, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"least as \(x, y, z\), got \(0.0, 0.0\)"):
        ops.PillarGrid(2, 3, least=(0.0, 0.0), size=GRID.size)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="most_points of 1 or more, got 0"):
        ops.pillarize(points, GRID, most_pillars=1, most_points=0)
    with pytest.raises(ShapeError, match=r"points of shape \(any, 4\), got \(1, 3\)"):
        ops.pillarize(points[:, :3], GRID, most_pillars=1, most_points=1)


@pytest.mark.parametrize(
    ("other", "overlap"),
    [
        ((0, 0, 2, 2, 0), 1.0),
        ((1, 0, 2, 2, 0), 1 / 3),
        ((2, 0, 2, 2, 0), 0.0),
        # A square and the same one turned by 45 degrees share a regular octagon.
        ((0, 0, 2, 2, math.pi / 4), 8 * (math.sqrt(2) - 1) / (8 - 8 * (math.sqrt(2) - 1))),
        ((0, 0, 1, 1, 0.3), 0.25),
        ((0, 0, 4, 1, math.pi / 2), 2 / 6),
    ],
)
def test_boxes_are_suppressed_above_their_overlap(other: tuple[float, ...], overlap: float) -> None:
    boxes = xp.asarray([[0, 0, 2, 2, 0], list(other)], dtype=xp.float32)
    if overlap < 0.99:
        assert ops.rotated_nms(boxes, overlap + 1e-4, most=2).tolist() == [0, 1]
    if overlap > 0:
        assert ops.rotated_nms(boxes, overlap - 1e-4, most=2).tolist() == [0, -1]


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.3, 0.7])
def test_random_boxes_are_suppressed_as_numpy_does(threshold: float) -> None:
    generator = np.random.default_rng(7)
    boxes = generator.random((150, 5)) * [12, 12, 4, 2, 6] + [0, 0, 0.5, 0.5, -3]
    boxes = boxes.astype(np.float32)
    kept: list[int] = []
    for index, box in enumerate(boxes.astype(np.float64)):
        if (reference.overlap(box, boxes[kept].astype(np.float64)) <= threshold).all():
            kept.append(index)
    result = ops.rotated_nms(xp.asarray(boxes, copy=True), threshold, most=300).tolist()
    assert result == (kept + [-1] * 300)[:300]


def test_suppression_refuses_what_is_no_threshold() -> None:
    boxes = xp.zeros((1, 5), dtype=xp.float32)
    with pytest.raises(AssayError, match="from 0 to 1"):
        ops.rotated_nms(boxes, math.nan, most=1)
    with pytest.raises(InputError, match="most of 1 or more"):
        ops.rotated_nms(boxes, 0.5, most=0)
    assert ops.rotated_nms(xp.zeros((0, 5), dtype=xp.float32), 0.5, most=2).tolist() == [-1, -1]
    # A box without extent overlaps nothing.
    assert ops.rotated_nms(xp.zeros((2, 5), dtype=xp.float32), 0.0, most=2).tolist() == [0, 1]
