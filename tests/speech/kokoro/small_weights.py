"""Weights of small modules, drawn by name: the oracle was recorded with the same."""

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def drawn(name: str, shape: Sequence[int]) -> npt.NDArray[np.float32]:
    """Values that depend on the name and the shape only."""
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    values = generator.standard_normal(tuple(shape)) * 0.3
    # Snake divides by alpha.
    return (np.abs(values) + 0.5 if "alpha" in name else values).astype(np.float32)
