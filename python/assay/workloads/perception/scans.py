"""Lidar scans in KITTI's format: rings of rays over a road, with noise and dropouts; from a seed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from assay.errors import InputError
from assay.files import read_bytes
from assay.workloads.random_numbers import Floats, RandomNumbers

Scan = npt.NDArray[np.float32]
"""Points, (count, 4): x ahead, y left, z up, in meters from the sensor, and intensity from 0 to 1."""

RINGS: Final = 64
AZIMUTHS: Final = 1_800
"""Rays of a ring: one each 0.2 degrees, as the HDL-64E of KITTI at 10 Hz gives within 10 %."""
RAYS: Final = RINGS * AZIMUTHS

_ELEVATION_TOP: Final = 2.0
_ELEVATION_BOTTOM: Final = -24.8
"""Degrees of the uppermost and the lowest ring: the HDL-64E's field of view of 26.8 degrees."""
_SENSOR_HEIGHT: Final = 1.73
"""Meters above the road: of KITTI's car (Geiger et al. 2013)."""
_RANGE: Final = 80.0
_NOISE: Final = 0.02
"""Deviation of a distance in meters: the sensor's data sheet states below 2 cm."""
_DROPOUTS_PER_1024: Final = 102
_OBJECTS: Final = (
    # Length, width, height, how many: cars, pedestrians, cyclists, walls.
    (3.9, 1.6, 1.56, 14),
    (0.8, 0.6, 1.73, 8),
    (1.76, 0.6, 1.73, 6),
    (12.0, 0.6, 3.0, 8),
)
_NUMBERS: Final = 4
"""Of a point."""
_BYTES: Final = 4 * _NUMBERS
"""Of a point in a file."""


def scan(seed: int, frame: int = 0) -> Scan:
    """The points of one scan, in the order of azimuths of a ring, ring by ring.

    Every number is made of integers by sums, products, quotients and square roots, which are the same
    on every machine.

    >>> points = scan(seed=1)
    >>> points.shape[1], 80_000 < len(points) < RAYS
    (4, True)
    """
    numbers = RandomNumbers(seed, frame)
    directions = _directions()
    distances, shine = _road(directions)
    for length, width, height, count in _OBJECTS:
        for _ in range(count):
            _place(numbers, (length, width, height), directions, distances, shine)
    noise = numbers.normal(RAYS) * _NOISE
    kept = numbers.integers(RAYS, 1_024) >= _DROPOUTS_PER_1024
    kept &= distances < _RANGE
    intensity = shine + numbers.normal(RAYS) * 0.05
    measured = (distances + noise)[kept]
    points = np.empty((len(measured), 4), np.float32)
    for axis in range(3):
        points[:, axis] = directions[axis][kept] * measured
    # The files of KITTI have hundredths.
    points[:, 3] = np.floor(np.clip(intensity[kept], 0.0, 0.99) * 100.0 + 0.5) * 0.01
    return points


def write_scan(path: str | Path, points: npt.ArrayLike) -> None:
    """Write a file of KITTI's folder velodyne: four little-endian float32 a point.

    `points` are numbers of the shape (count, 4), all finite as float32.
    """
    given = np.asarray(points)
    if given.ndim != 2 or given.shape[1] != _NUMBERS or given.dtype.kind not in "fiu":
        raise InputError(
            f"scan {path} cannot be written: expected numbers of shape (count, {_NUMBERS}), got "
            f"{given.dtype} of shape {given.shape}",
            "a point is x, y and z in meters, and intensity",
        )
    with np.errstate(over="ignore"):
        converted = given.astype("<f4")
    _check_finite(converted, f"scan {path} cannot be written")
    try:
        Path(path).write_bytes(converted.tobytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"scan {path} cannot be written: {reason}") from None


def read_scan(path: str | Path) -> Scan:
    """The points of a file of KITTI's folder velodyne."""
    data = read_bytes("scan", Path(path))
    if len(data) % _BYTES:
        raise InputError(
            f"scan {path} cannot be read: expected {_BYTES} bytes a point, got {len(data)} bytes",
            "files of KITTI's folder velodyne are float32 x, y, z and intensity, one point after the other",
        )
    points = np.frombuffer(data, "<f4").reshape(-1, _NUMBERS).astype(np.float32)
    _check_finite(points, f"scan {path} cannot be read")
    return points


def _check_finite(points: Scan, what: str) -> None:
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        at = int(np.argmin(finite))
        raise InputError(
            f"{what}: expected finite numbers, got {points[at].tolist()} at point {at}",
            "leave out points without an echo: points[np.isfinite(points).all(axis=1)]",
        )


def _sine_cosine(angles: Floats) -> tuple[Floats, Floats]:
    """Sine and cosine by their series, which sums and products alone evaluate; angles up to pi / 2."""
    square = angles * angles
    sine, cosine = np.zeros_like(angles), np.zeros_like(angles)
    for power in range(20, -1, -2):
        cosine = (1.0 / math.factorial(power)) - cosine * square
        sine = (1.0 / math.factorial(power + 1)) - sine * square
    return sine * angles, cosine


def _directions() -> tuple[Floats, Floats, Floats]:
    """Unit vectors of all rays."""
    quarter = AZIMUTHS // 4
    sine, cosine = _sine_cosine(np.arange(quarter, dtype=np.float64) * (math.pi / 2 / quarter))
    # The other quarters are the first one, turned.
    around_x = np.concatenate([cosine, -sine, -cosine, sine])
    around_y = np.concatenate([sine, cosine, -sine, -cosine])
    step = (_ELEVATION_TOP - _ELEVATION_BOTTOM) / (RINGS - 1)
    degrees = _ELEVATION_TOP - np.arange(RINGS, dtype=np.float64) * step
    up, level = _sine_cosine(degrees * (math.pi / 180))
    x, y = (np.outer(level, around).ravel() for around in (around_x, around_y))
    return x, y, np.repeat(up, AZIMUTHS)


def _road(directions: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
    """Distances at which rays meet the road, and how much it reflects; beyond range where they do not."""
    down = -directions[2]
    meets = down > _SENSOR_HEIGHT / (2 * _RANGE)
    distances = np.where(meets, _SENSOR_HEIGHT / np.where(meets, down, 1.0), 2 * _RANGE)
    return distances, np.full(RAYS, 0.25)


def _place(
    numbers: RandomNumbers,
    extents: tuple[float, float, float],
    directions: tuple[Floats, Floats, Floats],
    distances: Floats,
    shine: Floats,
) -> None:
    """Put a box of random place and heading on the road; rays end at its sides."""
    x, y, turn, bright = numbers.uniform(4)
    heading_x, heading_y = 1.0 - 2.0 * turn, 0.5
    norm = math.sqrt(heading_x * heading_x + heading_y * heading_y)
    heading_x, heading_y = heading_x / norm, heading_y / norm
    center_x, center_y = 70.0 * x - 5.0, 70.0 * y - 35.0
    if abs(center_x) < 4.0 and abs(center_y) < 4.0:
        center_x += 8.0  # where the sensor's own car is
    # In the box's axes: the sensor, and the rays.
    along = (center_x * heading_x + center_y * heading_y, extents[0] / 2)
    across = (center_y * heading_x - center_x * heading_y, extents[1] / 2)
    upward = (extents[2] / 2 - _SENSOR_HEIGHT, extents[2] / 2)
    rays = (
        directions[0] * heading_x + directions[1] * heading_y,
        directions[1] * heading_x - directions[0] * heading_y,
        directions[2],
    )
    near, far = np.zeros(RAYS), np.full(RAYS, 2 * _RANGE)
    for ray, (middle, half) in zip(rays, (along, across, upward), strict=True):
        slope = np.where(np.abs(ray) < 1e-12, 1e-12, ray)
        first, second = (middle - half) / slope, (middle + half) / slope
        near = np.maximum(near, np.minimum(first, second))
        far = np.minimum(far, np.maximum(first, second))
    hit = (near < far) & (near > 0.5) & (near < distances)
    distances[hit] = near[hit]
    shine[hit] = 0.1 + 0.8 * bright
