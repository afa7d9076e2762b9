"""Shapes and strides: views are arithmetic on these and move no bytes."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Final, NamedTuple

from assay.errors import AxisError, IndexingError, ShapeError

Shape = tuple[int, ...]
BasicIndex = int | slice | EllipsisType | None


class Layout(NamedTuple):
    """Shape, strides and offset of an array; strides and offset are in bytes."""

    shape: Shape
    strides: Shape
    offset: int

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    def is_contiguous(self, itemsize: int) -> bool:
        """Whether the elements are contiguous in C order."""
        return _is_contiguous(self.shape, self.strides, itemsize)


@functools.lru_cache(maxsize=4096)
def _is_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    if 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def row_major(shape: Shape, itemsize: int) -> Shape:
    """The strides of a contiguous array in C order."""
    strides: list[int] = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


MAX_BYTES: Final = 1 << 62
"""The size limit of an array; larger sizes overflow the operating system's size type."""


class ContiguousLayout(NamedTuple):
    """The layout of a new contiguous array, with its size."""

    layout: Layout
    nbytes: int
    size: int


@functools.lru_cache(maxsize=4096)
def contiguous_layout(shape: Shape, itemsize: int) -> ContiguousLayout:
    """The layout of a new array in C order, with its bytes and elements."""
    size = math.prod(shape)
    return ContiguousLayout(Layout(shape, row_major(shape, itemsize), 0), size * itemsize, size)


def as_shape(value: int | Sequence[int], operation: str) -> Shape:
    """A shape as a tuple of extents that are not negative."""
    extents: Sequence[int]
    try:
        extents = (operator.index(value),)  # type: ignore[arg-type]
    except TypeError:
        try:
            extents = tuple(operator.index(extent) for extent in value)  # type: ignore[union-attr]
        except TypeError:
            raise ShapeError(f"{operation}: expected a shape of integers, got {value!r}") from None
    if any(extent < 0 for extent in extents):
        raise ShapeError(f"{operation}: expected extents of at least 0, got {tuple(extents)}")
    return tuple(extents)


def normalize_axis(axis: int, ndim: int, operation: str) -> int:
    """An axis counted from the front."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise AxisError(
            f"{operation}: expected an axis between {-ndim} and {ndim - 1}, got {number}"
            if ndim
            else f"{operation}: expected an array with axes, got axis {number} of a 0-d array"
        )
    return number % ndim


def normalize_axes(axes: int | Sequence[int] | None, ndim: int, operation: str) -> Shape:
    """Axes counted from the front, each once; all where none are given."""
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(normalize_axis(axis, ndim, operation) for axis in given)
    if len(set(found)) != len(found):
        raise ShapeError(f"{operation}: expected each axis once, got {given}")
    return found


def broadcast_shapes(operation: str, *shapes: Shape) -> Shape:
    """The shape that all of these broadcast to."""
    result: list[int] = []
    for position in range(1, max(map(len, shapes), default=0) + 1):
        extents = {shape[-position] for shape in shapes if position <= len(shape)} - {1}
        if len(extents) > 1:
            names = ", ".join(str(shape) for shape in shapes)
            raise ShapeError(
                f"{operation}: expected shapes that broadcast, got {names}",
                "extents must be equal or 1, counted from the last axis",
            )
        result.append(extents.pop() if extents else 1)
    return tuple(reversed(result))


def broadcast(layout: Layout, shape: Shape, operation: str) -> Layout:
    """The layout broadcast to a shape: axes of extent 1 get a stride of 0."""
    if broadcast_shapes(operation, layout.shape, shape) != shape:
        raise ShapeError(
            f"{operation}: expected a shape that broadcasts to {shape}, got {layout.shape}"
        )
    missing = len(shape) - len(layout.shape)
    strides = tuple(
        0
        if axis < missing or layout.shape[axis - missing] != extent
        else layout.strides[axis - missing]
        for axis, extent in enumerate(shape)
    )
    return Layout(shape, strides, layout.offset)


def index(layout: Layout, key: tuple[BasicIndex, ...]) -> Layout:
    """Basic indexing: the view that integers, slices, `...` and None select."""
    indexed_axes = sum(entry is not None and entry is not Ellipsis for entry in key)
    if key.count(Ellipsis) > 1:
        raise IndexingError("index: expected at most one ellipsis, got several")
    if indexed_axes > len(layout.shape):
        raise IndexingError(
            f"index: expected at most {len(layout.shape)} indices for shape {layout.shape}, got {indexed_axes}"
        )
    shape: list[int] = []
    strides: list[int] = []
    offset = layout.offset
    axis = 0
    skipped = len(layout.shape) - indexed_axes
    for entry in key if Ellipsis in key else (*key, Ellipsis):
        if entry is None:
            shape.append(1)
            strides.append(0)
        elif entry is Ellipsis:
            shape.extend(layout.shape[axis : axis + skipped])
            strides.extend(layout.strides[axis : axis + skipped])
            axis += skipped
        elif isinstance(entry, slice):
            start, stop, step = entry.indices(layout.shape[axis])
            count = len(range(start, stop, step))
            shape.append(count)
            strides.append(layout.strides[axis] * step)
            # The offset of an empty view must not point past the memory.
            offset += start * layout.strides[axis] if count else 0
            axis += 1
        else:
            extent = layout.shape[axis]
            if not -extent <= entry < extent:
                raise IndexingError(
                    f"index: expected an index between {-extent} and {extent - 1} on axis {axis}, "
                    f"got {entry}"
                    if extent
                    else f"index: expected no index on axis {axis}, which is empty, got {entry}"
                )
            offset += entry % extent * layout.strides[axis]
            axis += 1
    return Layout(tuple(shape), tuple(strides), offset)


def permute(layout: Layout, axes: Shape) -> Layout:
    """The layout with its axes permuted."""
    shape = tuple(layout.shape[axis] for axis in axes)
    return Layout(shape, tuple(layout.strides[axis] for axis in axes), layout.offset)


def reshape(layout: Layout, shape: Shape, itemsize: int) -> Layout | None:
    """The layout of a view of another shape, or None where the elements must be copied."""
    if layout.size == 0:
        return Layout(shape, row_major(shape, itemsize), layout.offset)
    old = [pair for pair in zip(layout.shape, layout.strides, strict=True) if pair[0] != 1]
    strides: list[int] = []
    position = 0
    at = 0
    while at < len(shape):
        # The fewest new and old axes with equally many elements.
        new_count, old_count, first, old_first = shape[at], 1, at, position
        at += 1
        while new_count != old_count:
            if new_count < old_count:
                new_count *= shape[at]
                at += 1
            else:
                old_count *= old[position][0]
                position += 1
        group = old[old_first:position]
        for (_, outer), (extent, inner) in itertools.pairwise(group):
            if outer != extent * inner:
                return None
        step = group[-1][1] if group else itemsize
        tail: list[int] = []
        for extent in reversed(shape[first:at]):
            tail.append(step)
            step *= extent
        strides.extend(reversed(tail))
    return Layout(shape, tuple(strides), layout.offset)
