"""Random arrays: counter-based (Philox), so that a seed gives the same numbers on every device."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import InputError
from assay.runtime import dtypes, transfer
from assay.runtime.array import Array
from assay.runtime.hardware import device as find_device
from assay.xp.creation import Type, Where

Shape = int | tuple[int, ...]


class Generator:
    """A stream of random numbers; `default_rng` begins one."""

    def __init__(self, seed: int | None, device: Where) -> None:
        """Begin the stream of a seed, or of one that the system chooses."""
        self._numbers = np.random.Generator(np.random.Philox(seed))
        self._device = find_device(device)

    def _store(self, operation: str, values: Any, dtype: Type, default: dtypes.DType) -> Array:
        chosen = default if dtype is None else dtypes.as_dtype(dtype, operation)
        return transfer.store(operation, self._device, np.asarray(values), chosen)

    def uniform(
        self, low: float = 0.0, high: float = 1.0, shape: Shape = (), *, dtype: Type = None
    ) -> Array:
        """Numbers from `low` to below `high`, of float32 unless said otherwise."""
        if not low <= high:
            raise InputError(f"uniform: expected low up to high, got {low} and {high}")
        values = self._numbers.uniform(low, high, shape)
        return self._store("uniform", values, dtype, dtypes.float32)

    def normal(
        self, mean: float = 0.0, deviation: float = 1.0, shape: Shape = (), *, dtype: Type = None
    ) -> Array:
        """Normally distributed numbers, of float32 unless said otherwise."""
        if not deviation >= 0:
            raise InputError(f"normal: expected a deviation of 0 or more, got {deviation}")
        values = self._numbers.normal(mean, deviation, shape)
        return self._store("normal", values, dtype, dtypes.float32)

    def integers(self, low: int, high: int, shape: Shape = (), *, dtype: Type = None) -> Array:
        """Whole numbers from `low` to below `high`, of int64 unless said otherwise."""
        if not low < high:
            raise InputError(f"integers: expected low below high, got {low} and {high}")
        values = self._numbers.integers(low, high, shape)
        return self._store("integers", values, dtype, dtypes.int64)

    def permutation(self, count: int, *, dtype: Type = None) -> Array:
        """The numbers from 0 to below `count`, each once, in random order."""
        if count < 0:
            raise InputError(f"permutation: expected a count of 0 or more, got {count}")
        return self._store("permutation", self._numbers.permutation(count), dtype, dtypes.int64)


def default_rng(seed: int | None = None, *, device: Where = None) -> Generator:
    """A generator whose numbers depend on the seed alone."""
    if seed is not None and seed < 0:
        raise InputError(f"default_rng: expected a seed of 0 or more, got {seed}")
    return Generator(seed, device)
