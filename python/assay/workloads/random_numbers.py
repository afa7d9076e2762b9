"""Random numbers that are the same on every machine: integers of a bit generator, and exact arithmetic on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class RandomNumbers:
    """The stream of a seed.

    NumPy promises the raw integers of a bit generator forever, not what distributions make of them.
    """

    def __init__(self, *seed: int) -> None:
        """Begin the stream of these numbers."""
        self._bits = np.random.PCG64(seed)

    def integers(self, count: int, below: int) -> npt.NDArray[Any]:
        """Whole numbers from 0 to below a number far below 2^32."""
        raw = self._bits.random_raw(count) >> np.uint64(32)
        return ((raw * np.uint64(below)) >> np.uint64(32)).astype(np.int64)

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> Floats:
        """Numbers from low to high."""
        raw = (self._bits.random_raw(count) >> np.uint64(11)).astype(np.float64)
        return raw * (2.0**-53 * (high - low)) + low

    def normal(self, count: int) -> Floats:
        """Mean 0 and deviation 1: sums of four uniform numbers of 16 bits, bounded by 3.5 deviations."""
        raw = self._bits.random_raw(count)
        total = np.zeros(count, np.int64)
        for shift in (0, 16, 32, 48):
            total += ((raw >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
        # Each part has variance (2^32 - 1) / 12.
        centered: Floats = (total - 2 * 65_535).astype(np.float64)
        return centered * (1.0 / math.sqrt((2.0**32 - 1) / 3))
