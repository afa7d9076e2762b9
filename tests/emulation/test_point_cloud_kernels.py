"""Pillars, their features and suppression of boxes against the operations of CPUs, thread by thread on the host."""

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Argument, Kernel

from assay import ops, xp

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

THREADS = 64
GRID = ops.PillarGrid(6, 9, least=(-2.0, 1.0, -1.0), size=(0.5, 0.25, 2.0))


def cloud(count: int, seed: int = 1) -> Floats:
    """Points in clusters, some outside, on borders of cells or undefined."""
    random = np.random.default_rng(seed)
    centers = random.random((8, 3)) * [4.5, 1.5, 2.0] + [-2.0, 1.0, -1.0]
    points = np.empty((count, 4), np.float32)
    points[:, :3] = centers[random.integers(0, 8, count)] + 0.4 * random.standard_normal((count, 3))
    points[:, 3] = random.random(count)
    points[::7, :2] = np.round(points[::7, :2] * 4) / 4
    points[5::50, random.integers(0, 3)] = np.nan
    points[6::50, 1] = np.inf
    points[7::50, 0] = -0.0
    return points


def on_cpu(
    points: Floats, grid: ops.PillarGrid, most_pillars: int, most_points: int
) -> tuple[Floats, Integers, Integers]:
    """Grouped points, starts and cells."""
    pillars = ops.pillarize(
        xp.asarray(points, copy=True), grid, most_pillars=most_pillars, most_points=most_points
    )
    grouped, starts, cells = (one.to_numpy() for one in pillars)
    return grouped, starts, cells


def on_gpu(
    points: Floats, grid: ops.PillarGrid, most_pillars: int, most_points: int, *, backward: bool
) -> tuple[Floats, Integers, Integers]:
    """The same by the kernels; what they do not write stays poisoned."""

    def poisoned(count: int) -> Integers:
        return np.full(count, -9, np.int32)

    count, cell_count = len(points), grid.rows * grid.columns
    ctas = -(-count // THREADS)
    scan_left, cell_counts = np.zeros((2, cell_count), np.int32)
    cell_of_point, lists = poisoned(count), poisoned(count)
    pillar_of_cell, tile_totals = poisoned(cell_count), poisoned(3 * ctas)
    list_starts, starts = poisoned(most_pillars + 1), poisoned(most_pillars + 1)
    cells, grouped = poisoned(most_pillars), np.full((count, 4), np.nan, np.float32)
    counted = (cell_of_point, scan_left, cell_counts, tile_totals, count, most_points)
    placed = (points, cell_of_point, pillar_of_cell, list_starts, lists, starts, grouped)
    launches: tuple[tuple[str, tuple[Argument, ...]], ...] = (
        ("assign_cells", (points, cell_of_point, scan_left, cell_counts, count, grid.rows, grid.columns,
                          *grid.numbers())),
        ("count_tiles", counted),
        ("number_pillars", (*counted, pillar_of_cell, list_starts, starts, cells, most_pillars)),
        ("list_points", (cell_of_point, pillar_of_cell, list_starts, cell_counts, lists, count, most_pillars)),
        ("place_points", (*placed, count, most_pillars, most_points)),
    )  # fmt: skip
    for entry, arguments in launches:
        late = [one for one in arguments if isinstance(one, np.ndarray)]
        kernel = Kernel("pillarize.cu", entry=entry, THREADS=THREADS)
        kernel(ctas, THREADS, *arguments, late=late, backward=backward)
    return grouped, starts, cells


EVERY = 6 * 9


@pytest.mark.parametrize(
    ("points", "most_pillars", "most_points"),
    [
        (cloud(500), EVERY, 32),
        (cloud(500), 7, 32),
        (cloud(500), EVERY, 3),
        (cloud(129), 2, 1),
        (cloud(500) + np.float32(100), 5, 4),
        (np.full((150, 4), 1.1, np.float32) * [1, 1, 0, 1], 1, 10),
        (cloud(1), 3, 2),
        (np.array([[-2.0, 1.0, -1.0, 0.5]]), 1, 1),
        (np.array([[2.5, 2.5, 1.0, 0.5]]), 1, 1),
    ],
    ids=["all", "pillars that do not fit", "overfull", "tight", "outside", "one", "a point", "corner",
         "other corner"],
)  # fmt: skip
@pytest.mark.parametrize("backward", [False, True])
def test_pillars_are_those_of_cpus(
    points: Floats, most_pillars: int, most_points: int, backward: bool
) -> None:
    points = points.astype(np.float32)
    expected = on_cpu(points, GRID, most_pillars, most_points)
    got = on_gpu(points, GRID, most_pillars, most_points, backward=backward)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize(
    ("channels", "most_points", "most_pillars"), [(64, 32, EVERY), (16, 3, EVERY), (80, 8, 5)]
)
@pytest.mark.parametrize("backward", [False, True])
def test_features_are_those_of_cpus(
    channels: int, most_points: int, most_pillars: int, backward: bool
) -> None:
    random = np.random.default_rng(channels)
    weight = random.standard_normal((channels, 10)).astype(np.float32)
    bias = random.standard_normal(channels).astype(np.float32)
    points, cell_count = cloud(400), GRID.rows * GRID.columns
    grouped, starts, cells = on_cpu(points, GRID, most_pillars, most_points)
    arrays = [xp.asarray(one, copy=True) for one in (grouped, starts, cells, weight, bias)]
    expected = ops.pillar_features(
        ops.Pillars(*arrays[:3]), GRID, *arrays[3:], most_points=most_points
    ).to_numpy()
    pillar_of_cell = np.full(cell_count, -1, np.int32)
    Kernel("pillar_features.cu", entry="map_pillars", THREADS=THREADS)(
        -(-most_pillars // 32), 32, cells, pillar_of_cell, most_pillars, cell_count,
        late=[cells], backward=backward,
    )  # fmt: skip
    assert (pillar_of_cell >= 0).sum() == (cells >= 0).sum()
    out = np.full((channels, cell_count), np.nan, np.float32)
    Kernel("pillar_features.cu", entry="pillar_features", THREADS=THREADS)(
        (-(-cell_count // 64), -(-channels // 64)), THREADS, grouped, starts, pillar_of_cell, weight, bias,
        out, len(points), most_points, channels, GRID.rows, GRID.columns, *GRID.numbers(),
        late=[grouped, starts, pillar_of_cell], backward=backward,
    )  # fmt: skip
    np.testing.assert_allclose(out.reshape(expected.shape), expected, rtol=0, atol=2e-5)
    empty = np.setdiff1d(np.arange(cell_count), cells)
    assert (out[:, empty] == 0).all()


def boxes_around(count: int, extent: float) -> Floats:
    """Boxes of which some touch, some are equal, and some have no extent."""
    random = np.random.default_rng(count)
    boxes = random.random((count, 5)) * [extent, extent, 4, 2, 6] + [0, 0, 0.5, 0.5, -3]
    boxes[::5] = np.round(boxes[::5])
    boxes[::5, 4] = 0.0
    boxes[3::11] = boxes[2::11][: len(boxes[3::11])]
    boxes[9::20, 2] = 0.0
    return boxes.astype(np.float32)


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize(("count", "most"), [(150, 300), (128, 20), (1, 2), (65, 65)])
@pytest.mark.parametrize("backward", [False, True])
def test_boxes_are_kept_as_by_cpus(threshold: float, count: int, most: int, backward: bool) -> None:
    boxes = boxes_around(count, 12.0)
    expected = ops.rotated_nms(xp.asarray(boxes, copy=True), threshold, most=most).to_numpy()
    words = -(-count // 64)
    masks = np.full((count, words), -1, np.int64)
    kept = np.full(most, -9, np.int32)
    Kernel("rotated_nms.cu", entry="mark_overlaps")(
        (words, words), 64, boxes, masks, count, threshold, late=[boxes], backward=backward
    )
    # The words that were not written would suppress every box.
    Kernel("rotated_nms.cu", entry="keep_boxes")(
        1, 32, masks, kept, count, most, late=[masks], backward=backward
    )
    np.testing.assert_array_equal(kept, expected)


def test_a_box_that_is_no_number_is_kept_or_not_as_by_cpus() -> None:
    boxes = boxes_around(40, 5.0)
    boxes[3, 0], boxes[7, 2], boxes[11, 4], boxes[15, 3] = np.nan, np.inf, np.nan, np.nan
    expected = ops.rotated_nms(xp.asarray(boxes, copy=True), 0.2, most=40).to_numpy()
    masks, kept = np.zeros((40, 1), np.int64), np.zeros(40, np.int32)
    Kernel("rotated_nms.cu", entry="mark_overlaps")((1, 1), 64, boxes, masks, 40, 0.2)
    Kernel("rotated_nms.cu", entry="keep_boxes")(1, 32, masks, kept, 40, 40)
    np.testing.assert_array_equal(kept, expected)
