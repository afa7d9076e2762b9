"""Heads padded with zeros to a size that a device's attention kernels have.

Zeros of queries and keys add nothing to scores, and zeros of values meet zero columns of the output
projection: results are those of the unpadded heads, at the price of a larger KV cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt


class HeadPadding(NamedTuple):
    """The size of a head, and the size that it is computed with."""

    size: int
    padded: int

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to pad."""
        return self.padded != self.size

    @property
    def share(self) -> float:
        """The part of a padded head that is not zero."""
        return self.size / self.padded

    def rows(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pad each head of a matrix by heads of rows, or of a vector."""
        heads = values.reshape(-1, self.size, *values.shape[1:])
        padding = [(0, 0)] * heads.ndim
        padding[1] = (0, self.padded - self.size)
        return np.ascontiguousarray(np.pad(heads, padding).reshape(-1, *values.shape[1:]))

    def columns(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pad each head of a matrix whose columns are heads."""
        return np.ascontiguousarray(self.rows(np.ascontiguousarray(values.T)).T)

    def norm(self, weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pad the weight of an RMSNorm, whose mean is then over zeros too.

        x / sqrt(sum / padded + epsilon share) sqrt(share) equals x / sqrt(sum / size + epsilon).
        """
        return self.rows(weight) * np.float32(self.share**0.5)


def head_padding(size: int, supported: Sequence[int] | None) -> HeadPadding:
    """The padding of a head for kernels of these sizes; None means any size.

    >>> head_padding(80, (64, 128, 192)).padded
    128
    """
    if supported is None or size in supported:
        return HeadPadding(size, size)
    # A head that is too large stays as it is, and is refused.
    return HeadPadding(size, min((one for one in supported if one > size), default=size))
