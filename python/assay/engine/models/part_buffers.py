"""Where layers of several matrices leave their products before these become the columns of one array.

An operation writes whole rows. The products of a layer's matrices are written one below the other,
each where the largest step would have it, and one gather of rows interleaves them. Its indices are
then the same for every number of tokens, and a captured graph reads the beginning of them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay import ops
from assay.runtime import Array, Device, allocation, dtypes
from assay.runtime.dtypes import DType
from assay.runtime.layout import Layout, row_major

Split = tuple[int, ...]
"""Outputs of the matrices of a layer, in order."""


class PartBuffers(NamedTuple):
    """The products of one layer at a time."""

    products: Array
    """As many rows as the largest step has, of the outputs of all matrices."""
    indices: Mapping[Split, Array]
    """The rows of `products` that follow each other in the result, in units of a split."""

    def target(self, tokens: int, first: int, count: int) -> Array:
        """Where the product goes whose columns start at `first`."""
        size = self.products.dtype.itemsize
        start = self.products.offset + self.products.shape[0] * first * size
        return self.products.view(Layout((tokens, count), row_major((tokens, count), size), start))

    def join(self, split: Split, out: Array, label: str) -> None:
        """Write the products of a layer to the columns of `out`."""
        unit, rows = math.gcd(*split), out.size // math.gcd(*split)
        capacity = self.products.shape[0] * sum(split) // unit
        index = self.indices[split]
        ops.gather_rows(
            _rows(self.products, capacity, unit),
            index.view(Layout((rows,), (4,), index.offset)),
            _rows(out, rows, unit),
            label=label,
        )


def allocate_parts(
    device: Device, dtype: DType, max_tokens: int, splits: Sequence[Split]
) -> PartBuffers | None:
    """The buffers of a model whose layers have these splits."""
    if not splits:
        return None
    widest = max(map(sum, splits))
    products = allocation.empty(device, (max_tokens, widest), dtype, "workspace")
    indices = {}
    for split in splits:
        numbers = gather_indices(max_tokens, split)
        stored = allocation.empty(device, (len(numbers),), dtypes.int32, "workspace")
        device.upload("workspace", memoryview(numbers), stored.buffer, 0)
        indices[split] = stored
    return PartBuffers(products, indices)


def gather_indices(max_tokens: int, split: Split) -> array[int]:
    """For every unit of every row of the result, where the products have it.

    >>> list(gather_indices(2, (2, 1)))
    [0, 1, 4, 2, 3, 5]
    """
    unit = math.gcd(*split)
    found: list[int] = []
    parts, first = [], 0
    for width in split:
        parts.append((max_tokens * first // unit, width // unit))
        first += width
    for token in range(max_tokens):
        for start, count in parts:
            found.extend(range(start + token * count, start + (token + 1) * count))
    return array("i", found)


def _rows(values: Array, rows: int, width: int) -> Array:
    shape = (rows, width)
    return values.view(Layout(shape, row_major(shape, values.dtype.itemsize), values.offset))
