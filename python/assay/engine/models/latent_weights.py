"""Matrices of latent attention whose rows are heads of two parts, taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]
else:
    np = LazyModule("numpy", globals(), "np")


class HeadParts(NamedTuple):
    """How many heads there are, and the rows of the two parts of each."""

    heads: int
    first_rows: int
    second_rows: int

    def first(self, values: Matrix) -> Matrix:
        """The first part of every head, one below the other."""
        return self._rows(self._by_head(values)[:, : self.first_rows])

    def second(self, values: Matrix) -> Matrix:
        """The second part of every head."""
        return self._rows(self._by_head(values)[:, self.first_rows :])

    def first_transposed(self, values: Matrix) -> Matrix:
        """The first part of every head, each transposed."""
        return self._rows(self._by_head(values)[:, : self.first_rows].transpose(0, 2, 1))

    def _by_head(self, values: Matrix) -> Matrix:
        return values.reshape(self.heads, self.first_rows + self.second_rows, -1)

    @staticmethod
    def _rows(values: Matrix) -> Matrix:
        return np.ascontiguousarray(values.reshape(-1, values.shape[2]))
