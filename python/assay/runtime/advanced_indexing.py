"""Advanced indexing with integer arrays and boolean masks, by gather and scatter kernels.

Every key reduces to adjacent axes flattened to one, and indices along it. A mask becomes the
indices where it is true.
"""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from assay.runtime import allocation, axis_kernels, elementwise_kernels, layout, transfer
from assay.runtime.array import Array
from assay.runtime.dtypes import bool_, int64
from assay.runtime.layout import Shape

Entry = int | slice | EllipsisType | Array | None


class Selection(NamedTuple):
    """Adjacent axes of a view, and indices along them."""

    view: Array
    """The array with the indexed axes adjacent."""
    axis: int
    """The first indexed axis."""
    axes: int
    """How many axes are indexed."""
    indices: Array
    """Indices along the flattened axes; their shape replaces that of the axes."""

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        extents = self.view.shape
        return (*extents[: self.axis], *self.indices.shape, *extents[self.axis + self.axes :])

    def flatten(self, contiguous: Array) -> Array:
        """The view, or a contiguous copy of it, with the indexed axes flattened."""
        extents, end = contiguous.shape, self.axis + self.axes
        length = math.prod(extents[self.axis : end])
        return _reshaped(contiguous, (*extents[: self.axis], length, *extents[end:]))


class _IndexEntry(NamedTuple):
    entry: Array | int
    position: int
    """Its position in the key."""
    axis: int
    """The first axis of the view that it indexes."""
    axes: int


def get(array: Array, entries: tuple[Entry, ...]) -> Array | None:
    """x[key] with arrays in the key; None where NumPy has to evaluate it."""
    selection = _selection("getitem", array, entries)
    if selection is None:
        return None
    source = selection.flatten(axis_kernels.contiguous(selection.view, "getitem"))
    return axis_kernels.gather("getitem", source, selection.indices, selection.axis)


def set_(array: Array, entries: tuple[Entry, ...], value: Any) -> bool:
    """x[key] = value with arrays in the key; false where NumPy has to do it."""
    allocation.require_writable(array, "setitem")
    if _masked_fill(array, entries, value):
        return True
    selection = _selection("setitem", array, entries)
    if selection is None:
        return False
    if not isinstance(value, Array):
        value = transfer.store("setitem", array.device, value, array.dtype)
    value_layout = layout.broadcast(
        _without_leading(value, selection.shape), selection.shape, "setitem"
    )
    elements = _without_aliasing(value.view(value_layout), array)
    if elements.dtype is not array.dtype:
        elements = transfer.astype(elements, array.dtype, "setitem")
    indices = _without_aliasing(selection.indices, array)
    target = axis_kernels.contiguous(selection.view, "setitem")
    axis_kernels.scatter("setitem", elements, indices, selection.flatten(target), selection.axis)
    if target is not selection.view:
        transfer.copy_into(selection.view, target, "setitem")
    return True


def _without_aliasing(source: Array, target: Array) -> Array:
    """The array, or a copy of it where the target shares its memory."""
    return transfer.copy(source, "setitem") if source.buffer is target.buffer else source


def _without_leading(value: Array, shape: Shape) -> layout.Layout:
    """The value's layout without excess leading axes of extent 1, as NumPy allows."""
    excess = len(value.shape) - len(shape)
    if excess > 0 and all(extent == 1 for extent in value.shape[:excess]):
        return layout.Layout(value.shape[excess:], value.strides[excess:], value.offset)
    return value.layout


def _masked_fill(array: Array, entries: tuple[Entry, ...], value: Any) -> bool:
    """Write one scalar where a mask is true, without compacting the mask."""
    if isinstance(value, Array) and value.ndim:
        return False
    view, advanced = _split(array, entries)
    if len(advanced) != 1 or not elementwise_kernels.supports(
        array.device, view.ndim, [array.dtype]
    ):
        return False
    mask, _, axis, axes = advanced[0]
    if not isinstance(mask, Array) or mask.dtype is not bool_:
        return False
    if mask.shape != view.shape[axis : axis + axes]:
        # An empty mask selects no elements.
        return True
    after = view.ndim - axis - axes
    strides = ((0,) * axis, mask.strides, (0,) * after)
    broadcasted = mask.view(layout.Layout(view.shape, sum(strides, ()), mask.offset))
    inputs = [elementwise_kernels.without_overlap("setitem", broadcasted, view), value, view]
    elementwise_kernels.launch("setitem", "where(a0,a1,a2)", array.dtype, inputs, view)
    return True


def _split(array: Array, entries: tuple[Entry, ...]) -> tuple[Array, list[_IndexEntry]]:
    """The view by the basic entries of the key, and its advanced entries."""
    indexed = sum(_axes(entry) for entry in entries)
    full_key = entries if Ellipsis in entries else (*entries, Ellipsis)
    key: list[Any] = []
    advanced: list[_IndexEntry] = []
    axis = 0
    for position, entry in enumerate(full_key):
        if isinstance(entry, (Array, int)):
            axes = _axes(entry)
            advanced.append(_IndexEntry(entry, position, axis, axes))
            key += [slice(None)] * axes
            axis += axes
        else:
            key.append(entry)
            axis += array.ndim - indexed if entry is Ellipsis else 1
    return array.view(layout.index(array.layout, tuple(key))), advanced


def _axes(entry: Entry) -> int:
    """How many axes an entry indexes."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, Array) and entry.dtype is bool_ else 1


def _selection(label: str, array: Array, entries: tuple[Entry, ...]) -> Selection | None:
    view, advanced = _split(array, entries)
    arrays = [one.entry for one in advanced if isinstance(one.entry, Array)]
    if max(view.ndim, *(array.ndim for array in arrays)) > elementwise_kernels.MAX_NDIM:
        return None
    allocation.common_device(label, [array, *arrays])
    extents = [view.shape[one.axis : one.axis + one.axes] for one in advanced]
    indices = _flat_indices(label, array, advanced, [math.prod(extent) for extent in extents])
    first, count = advanced[0].axis, sum(one.axes for one in advanced)
    if advanced[-1].position - advanced[0].position >= len(advanced):
        # Advanced entries that are not adjacent: their axes go to the front, as in NumPy.
        indexed_axes = [one.axis + at for one in advanced for at in range(one.axes)]
        others = [axis for axis in range(view.ndim) if axis not in indexed_axes]
        view, first = view.view(layout.permute(view.layout, (*indexed_axes, *others))), 0
    selection = Selection(view, first, count, indices)
    return selection if len(selection.shape) <= elementwise_kernels.MAX_NDIM else None


def _flat_indices(
    label: str, array: Array, advanced: list[_IndexEntry], lengths: list[int]
) -> Array:
    """The broadcast indices of all entries, raveled along the indexed axes."""
    indices = [_as_indices(label, one.entry) for one in advanced]
    if len(indices) == 1 and isinstance(indices[0], Array):
        # Kernels wrap negative indices themselves.
        return indices[0]
    shape = layout.broadcast_shapes(label, *(index.shape for index in indices))

    def evaluate(text: str, *inputs: elementwise_kernels.Input) -> Array:
        return elementwise_kernels.compute(label, text, int64, inputs, array.device, shape, int64)

    extents = [np.int64(max(length, 1)) for length in lengths]
    flat_indices = evaluate("remainder_(a0,a1)", indices[0], extents[0])
    for more, extent in zip(indices[1:], extents[1:], strict=True):
        flat_indices = evaluate(
            "add(multiply(a0,a1),remainder_(a2,a1))", flat_indices, extent, more
        )
    return flat_indices


def _as_indices(label: str, entry: Array | int) -> elementwise_kernels.Input:
    if isinstance(entry, int):
        return np.int64(entry)
    return axis_kernels.flatnonzero(label, entry) if entry.dtype is bool_ else entry


def _reshaped(contiguous: Array, shape: Shape) -> Array:
    """A contiguous array in another shape."""
    strides = layout.row_major(shape, contiguous.dtype.itemsize)
    return contiguous.view(layout.Layout(shape, strides, contiguous.offset))
