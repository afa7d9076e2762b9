"""What arrays of integers and masks select, as kernels of a device that has them.

Every selection comes to one thing: some neighboring axes taken as one, and numbers of places along
it. A mask gives the places where it is true.
"""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from assay.runtime import exchange, kernel_axes, kernels, launching, layout
from assay.runtime.array import Array
from assay.runtime.dtypes import bool_, int64
from assay.runtime.layout import Shape

Entry = int | slice | EllipsisType | Array | None


class Selection(NamedTuple):
    """Some axes of an array, and places along them."""

    view: Array
    """The array with the axes that are selected from side by side."""
    axis: int
    """The first of them."""
    axes: int
    """How many there are."""
    places: Array
    """Numbers of places along all of them taken as one, of the shape that takes theirs."""

    @property
    def shape(self) -> Shape:
        """The shape of what is selected."""
        whole = self.view.shape
        return (*whole[: self.axis], *self.places.shape, *whole[self.axis + self.axes :])

    def joined(self, packed: Array) -> Array:
        """The view, or a copy of it, with the axes that are selected from as one."""
        whole, end = packed.shape, self.axis + self.axes
        length = math.prod(whole[self.axis : end])
        return _shaped(packed, (*whole[: self.axis], length, *whole[end:]))


class _Selector(NamedTuple):
    entry: Array | int
    position: int
    """Its place in the key."""
    axis: int
    """The first axis of the view that it selects from."""
    axes: int


def get(array: Array, entries: tuple[Entry, ...]) -> Array | None:
    """What a key with arrays in it selects; None where NumPy has to do it."""
    found = _selection("getitem", array, entries)
    if found is None:
        return None
    source = found.joined(kernel_axes.packed(found.view, "getitem"))
    return kernel_axes.take("getitem", source, found.places, found.axis)


def put(array: Array, entries: tuple[Entry, ...], value: Any) -> bool:
    """Write a value into what such a key selects; false where NumPy has to do it."""
    launching.require_writable(array, "setitem")
    if _fill(array, entries, value):
        return True
    found = _selection("setitem", array, entries)
    if found is None:
        return False
    if not isinstance(value, Array):
        value = launching.store("setitem", array.device, value, array.dtype)
    given = layout.broadcast(_without_leading(value, found.shape), found.shape, "setitem")
    elements = _own(value.view(given), array)
    if elements.dtype is not array.dtype:
        elements = exchange.astype(elements, array.dtype, "setitem")
    places = _own(found.places, array)
    target = kernel_axes.packed(found.view, "setitem")
    kernel_axes.put("setitem", elements, places, found.joined(target), found.axis)
    if target is not found.view:
        exchange.copy_into(found.view, target, "setitem")
    return True


def _own(given: Array, target: Array) -> Array:
    """The array, or a copy of it where the target has the same memory."""
    return exchange.copy(given, "setitem") if given.buffer is target.buffer else given


def _without_leading(value: Array, shape: Shape) -> layout.Layout:
    """The value's layout; leading axes of extent 1 may be too many, as in NumPy."""
    more = len(value.shape) - len(shape)
    if more > 0 and all(extent == 1 for extent in value.shape[:more]):
        return layout.Layout(value.shape[more:], value.strides[more:], value.offset)
    return value.layout


def _fill(array: Array, entries: tuple[Entry, ...], value: Any) -> bool:
    """Write one number where a mask is true, without counting how often it is."""
    if isinstance(value, Array) and value.ndim:
        return False
    view, selectors = _split(array, entries)
    if len(selectors) != 1 or not kernels.serve(array.device, view.ndim, [array.dtype]):
        return False
    mask, _, axis, axes = selectors[0]
    if not isinstance(mask, Array) or mask.dtype is not bool_:
        return False
    if mask.shape != view.shape[axis : axis + axes]:
        # An empty mask selects nothing.
        return True
    after = view.ndim - axis - axes
    strides = ((0,) * axis, mask.strides, (0,) * after)
    spread = mask.view(layout.Layout(view.shape, sum(strides, ()), mask.offset))
    inputs = [kernels.apart("setitem", spread, view), value, view]
    kernels.write("setitem", "where(a0,a1,a2)", array.dtype, inputs, view)
    return True


def _split(array: Array, entries: tuple[Entry, ...]) -> tuple[Array, list[_Selector]]:
    """The view that slices and the like give, and what selects from its axes."""
    used = sum(_axes(entry) for entry in entries)
    whole = entries if Ellipsis in entries else (*entries, Ellipsis)
    key: list[Any] = []
    selectors: list[_Selector] = []
    axis = 0
    for position, entry in enumerate(whole):
        if isinstance(entry, (Array, int)):
            axes = _axes(entry)
            selectors.append(_Selector(entry, position, axis, axes))
            key += [slice(None)] * axes
            axis += axes
        else:
            key.append(entry)
            axis += array.ndim - used if entry is Ellipsis else 1
    return array.view(layout.index(array.layout, tuple(key))), selectors


def _axes(entry: Entry) -> int:
    """How many axes an entry uses up."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, Array) and entry.dtype is bool_ else 1


def _selection(label: str, array: Array, entries: tuple[Entry, ...]) -> Selection | None:
    view, selectors = _split(array, entries)
    arrays = [one.entry for one in selectors if isinstance(one.entry, Array)]
    if max(view.ndim, *(one.ndim for one in arrays)) > kernels.MOST_AXES:
        return None
    launching.one_device(label, [array, *arrays])
    extents = [view.shape[one.axis : one.axis + one.axes] for one in selectors]
    places = _places(label, array, selectors, [math.prod(extent) for extent in extents])
    first, count = selectors[0].axis, sum(one.axes for one in selectors)
    if selectors[-1].position - selectors[0].position >= len(selectors):
        # What selects is apart, so what is selected goes to the front, as in NumPy.
        chosen = [one.axis + at for one in selectors for at in range(one.axes)]
        others = [axis for axis in range(view.ndim) if axis not in chosen]
        view, first = view.view(layout.permute(view.layout, (*chosen, *others))), 0
    found = Selection(view, first, count, places)
    return found if len(found.shape) <= kernels.MOST_AXES else None


def _places(label: str, array: Array, selectors: list[_Selector], lengths: list[int]) -> Array:
    """Where all that selects meets, counted along the selected axes as one."""
    numbers = [_numbers(label, one.entry) for one in selectors]
    if len(numbers) == 1 and isinstance(numbers[0], Array):
        # Kernels count negative numbers from the end themselves.
        return numbers[0]
    shape = layout.broadcast_shapes(label, *(one.shape for one in numbers))

    def joined(text: str, *inputs: kernels.Input) -> Array:
        return kernels.compute(label, text, int64, inputs, array.device, shape, int64)

    extents = [np.int64(max(length, 1)) for length in lengths]
    found = joined("remainder_(a0,a1)", numbers[0], extents[0])
    for more, extent in zip(numbers[1:], extents[1:], strict=True):
        found = joined("add(multiply(a0,a1),remainder_(a2,a1))", found, extent, more)
    return found


def _numbers(label: str, entry: Array | int) -> kernels.Input:
    if isinstance(entry, int):
        return np.int64(entry)
    return kernel_axes.places(label, entry) if entry.dtype is bool_ else entry


def _shaped(packed: Array, shape: Shape) -> Array:
    """Elements without gaps in another shape."""
    strides = layout.row_major(shape, packed.dtype.itemsize)
    return packed.view(layout.Layout(shape, strides, packed.offset))
