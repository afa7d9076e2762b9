"""Pillars, their features and suppression of boxes on a GPU, against the CPU's."""

import numpy as np
import numpy.typing as npt
import pytest

from assay import ops, xp
from assay.runtime import Array, Device, cuda
from assay.workloads.perception.configuration import KITTI
from assay.workloads.perception.network import pillar_grid
from assay.workloads.perception.scans import scan

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

Floats = npt.NDArray[np.float32]

GRID = pillar_grid(KITTI)
LIMITS = (KITTI.grid.most_pillars, KITTI.grid.most_points)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=4 << 30)


def put(values: npt.NDArray[np.generic], where: Device | str = "cpu") -> Array:
    return xp.asarray(values, device=where, copy=True)


def crowded(count: int) -> Floats:
    """Points of which a pillar has thousands, and some are undefined or on borders."""
    random = np.random.default_rng(count)
    points: Floats = random.standard_normal((count, 4)).astype(np.float32)
    points = points * np.array([9, 9, 1, 1], np.float32) + np.array([20, 0, -1, 0], np.float32)
    points[::3] = points[0] + np.float32(1e-3) * random.random((len(points[::3]), 4), np.float32)
    points[1::97, 1] = np.nan
    points[2::97, 0] = np.inf
    points[::11, :2] = np.round(points[::11, :2] / np.float32(0.16)) * np.float32(0.16)
    return points


CLOUDS = {
    "a scan": (scan(1), *LIMITS),
    "pillars that do not fit": (scan(2), 500, 8),
    "crowded": (crowded(200_000), *LIMITS),
    "crowded, one point a pillar": (crowded(70_001), 3_000, 1),
    "outside": (crowded(5_000) + np.float32(1_000), *LIMITS),
    "a point": (scan(3)[:1], *LIMITS),
    "none": (scan(3)[:0], *LIMITS),
}


def pillars(points: Array, most_pillars: int, most_points: int) -> ops.Pillars:
    return ops.pillarize(points, GRID, most_pillars=most_pillars, most_points=most_points)


@pytest.mark.parametrize("name", CLOUDS)
def test_pillars_are_those_of_cpus(device: Device, name: str) -> None:
    points, most_pillars, most_points = CLOUDS[name]
    expected = pillars(put(points), most_pillars, most_points)
    # Again and again: scratch memory is that of the run before, and atomics come in another order.
    for _ in range(3):
        got = pillars(put(points, device), most_pillars, most_points)
        for one, other in zip(got, expected, strict=True):
            bits, other_bits = (array.to_numpy().view(np.uint32) for array in (one, other))
            np.testing.assert_array_equal(bits, other_bits)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("channels", [16, 64, 144])
def test_features_are_those_of_cpus(device: Device, name: str, channels: int) -> None:
    points, most_pillars, most_points = CLOUDS[name]
    random = np.random.default_rng(channels)
    weight = random.standard_normal((channels, 10)).astype(np.float32)
    bias = random.standard_normal(channels).astype(np.float32)

    def canvas(where: Device | str) -> Floats:
        grouped = pillars(put(points, where), most_pillars, most_points)
        shape = (channels, GRID.rows, GRID.columns)
        out = xp.full(shape, float("nan"), dtype=xp.float32, device=where)
        layer = (put(weight, where), put(bias, where))
        ops.pillar_features(grouped, GRID, *layer, most_points=most_points, out=out)
        values: Floats = out.to_numpy()
        return values

    np.testing.assert_allclose(canvas(device), canvas("cpu"), rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.5])
@pytest.mark.parametrize(("count", "most"), [(4_096, 500), (1_000, 2_000), (64, 1), (1, 2), (0, 2)])
def test_boxes_are_kept_as_by_cpus(device: Device, threshold: float, count: int, most: int) -> None:
    random = np.random.default_rng(count)
    boxes = random.random((count, 5)) * [60, 60, 4, 2, 6] + [0, 0, 0.5, 0.5, -3]
    # Boxes that touch, and equal ones.
    boxes[::5] = np.round(boxes[::5])
    boxes[::5, 4] = 0.0
    boxes[3::11] = boxes[2::11][: len(boxes[3::11])]
    values = boxes.astype(np.float32)
    expected = ops.rotated_nms(put(values), threshold, most=most).to_numpy()
    for _ in range(2):
        got = ops.rotated_nms(put(values, device), threshold, most=most).to_numpy()
        np.testing.assert_array_equal(got, expected)
