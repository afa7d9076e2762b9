"""Folds for cross-fitting on samples in time order: interleaved blocks with a gap around them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from assay.array_types import Flags, Ints

FOLDS: Final = 5
_MIN_BLOCK: Final = 8
_BLOCKS_PER_FOLD: Final = 4
"""A fold has blocks from all over the recording, so that none is an extrapolation of the others."""


class Fold(NamedTuple):
    """Rows to fit on, and rows to estimate."""

    train: Flags
    test: Flags


def block_length(count: int, folds: int = FOLDS) -> int:
    """Samples of a block: the square root of all, but at least four blocks a fold.

    >>> block_length(2500), block_length(100)
    (50, 5)
    """
    longest = max(count // (folds * _BLOCKS_PER_FOLD), 1)
    return max(min(math.isqrt(count), longest), min(_MIN_BLOCK, longest), 1)


def blocks(count: int, length: int) -> Ints:
    """The number of the block that each sample is in."""
    return np.arange(count) // length


def time_folds(count: int, folds: int = FOLDS, gap: int | None = None) -> Iterator[Fold]:
    """Folds of whole blocks; `gap` samples on either side of a test block are not fitted on.

    Neighbors in time resemble each other: a model that has seen the neighbor of a sample has seen
    some of its noise, and cross-fitting would be in name only.
    """
    length = block_length(count, folds)
    gap = length // 4 if gap is None else gap
    fold_of = blocks(count, length) % folds
    for fold in range(folds):
        test = fold_of == fold
        # Samples within the gap of a test sample: a running count over the window is not zero.
        sums = np.concatenate([[0], np.cumsum(test)])
        at = np.arange(count)
        near = sums[np.minimum(at + gap + 1, count)] - sums[np.maximum(at - gap, 0)]
        yield Fold(near == 0, test)
