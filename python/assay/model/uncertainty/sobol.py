"""Scrambled Sobol points, cached on disk: generating them needs SciPy, whose import takes a second."""

from __future__ import annotations

import numpy as np

from assay.model import store
from assay.model.uncertainty.truncation import Array
from assay.paths import cache

_BITS = 30
"""Points lie on a grid of 2^-30 from 0; the middles of their cells are never 0 nor 1."""
_SHARED = 64
"""Scenarios have hundreds of uncertain inputs. They share points in multiples of this many
dimensions, lest each further input needs new points."""


def sobol_points(dimensions: int, count: int, seed: int, replicate: int = 0) -> Array:
    """Scrambled Sobol points, one row for each dimension; `count` is a power of two.

    Each dimension is scrambled by itself, so the first rows of a larger set are a set too.
    """
    stored = dimensions if dimensions < _SHARED // 2 else -(-dimensions // _SHARED) * _SHARED
    key = store.fingerprint("sobol", stored, count, seed, replicate)
    path = cache("points") / f"{key}.points"
    content = store.read_cache(path)
    if content is None:
        cells = _generate(stored, count, seed, replicate)
        store.write_cache(path, cells.tobytes())
    else:
        cells = np.frombuffer(content, dtype="<u4").reshape(stored, count)
    return (cells[:dimensions] + 0.5) * 2.0**-_BITS


def _generate(dimensions: int, count: int, seed: int, replicate: int) -> np.ndarray:
    from scipy.stats import qmc

    random = np.random.default_rng([seed, replicate])
    sequence = qmc.Sobol(dimensions, scramble=True, bits=_BITS, seed=random)
    points = sequence.random_base2(count.bit_length() - 1)
    return np.ascontiguousarray((points.T * 2.0**_BITS).astype("<u4"))
