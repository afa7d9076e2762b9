"""Views of arrays of a step: other shapes and parts of the same memory."""

from __future__ import annotations

from assay.runtime import Array
from assay.runtime.dtypes import DType
from assay.runtime.layout import Layout, row_major


def view(array: Array, dtype: DType, extents: tuple[int, ...], first: int = 0) -> Array:
    """An array from its word `first` on, with another shape and data type."""
    layout = Layout(extents, row_major(extents, dtype.itemsize), array.offset + 4 * first)
    return Array(array.device, array.buffer, dtype, layout)


def as_rows(array: Array, width: int) -> Array:
    """The same elements as rows of another width."""
    return view(array, array.dtype, (array.size // width, width))


def first_rows(array: Array, rows: int) -> Array:
    """The first rows of an array of rows."""
    return view(array, array.dtype, (rows, array.shape[1]))


def narrowed(array: Array, width: int) -> Array:
    """The beginning of an array of rows, as as many rows of another width."""
    if array.shape[1] == width:
        return array
    return view(array, array.dtype, (array.shape[0], width))


def row_columns(row: Array, first: int, count: int) -> Array:
    """Some columns of a single row."""
    size = row.dtype.itemsize
    return row.view(Layout((1, count), (count * size, size), row.offset + first * size))


def part(vector: Array, first: int, count: int) -> Array:
    """Some elements of a vector."""
    size = vector.dtype.itemsize
    return vector.view(Layout((count,), (size,), vector.offset + first * size))
