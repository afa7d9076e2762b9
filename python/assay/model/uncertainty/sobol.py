"""Scrambled Sobol points, cached on disk: generating them needs SciPy, whose import takes a second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.model import store
from assay.model.uncertainty.truncation import Array
from assay.paths import cache

_BITS = 30
"""Points lie on a grid of 2^-30 from 0; the middles of their cells are never 0 nor 1."""
_SHARED = 64
"""Scenarios have hundreds of uncertain inputs. They share points in multiples of this many
dimensions, lest each further input needs new points."""


def sobol_points(
    dimensions: int | Sequence[int], count: int, seed: int, replicate: int = 0, of: int = 0
) -> Array:
    """Scrambled Sobol points, one row for each dimension; `count` is a power of two.

    With `of`, the given dimensions of a set that has so many. Each dimension is scrambled by
    itself, so the first rows of a larger set are a set too.
    """
    rows = range(dimensions) if isinstance(dimensions, int) else dimensions
    cells = _cells(of or len(rows), count, seed, replicate)
    points: Array = cells[list(rows)].astype(np.float64)
    points += 0.5
    points *= 2.0**-_BITS
    return points


def _cells(dimensions: int, count: int, seed: int, replicate: int) -> NDArray[np.uint32]:
    stored = dimensions if dimensions < _SHARED // 2 else -(-dimensions // _SHARED) * _SHARED
    key = store.fingerprint("sobol", stored, count, seed, replicate)
    path = cache("points") / f"{key}.points"
    content = store.read_cache(path)
    if content is None:
        cells = _generate(stored, count, seed, replicate)
        store.write_cache(path, cells.tobytes())
        return cells
    return np.frombuffer(content, dtype="<u4").reshape(stored, count)


def _generate(dimensions: int, count: int, seed: int, replicate: int) -> NDArray[np.uint32]:
    from scipy.stats import qmc

    random = np.random.default_rng([seed, replicate])
    sequence = qmc.Sobol(dimensions, scramble=True, bits=_BITS, seed=random)
    points = sequence.random_base2(count.bit_length() - 1)
    return np.ascontiguousarray((points.T * 2.0**_BITS).astype("<u4"))
