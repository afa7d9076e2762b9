"""Other shapes and orders of the same elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from assay.errors import ArrayBufferError, ShapeError
from assay.runtime import (
    allocation,
    axis_kernels,
    dtypes,
    elementwise_kernels,
    indexing,
    layout as layouts,
    numpy_kernels,
    transfer,
)
from assay.runtime.array import Array
from assay.runtime.layout import Layout, normalize_axes, normalize_axis

Axes = int | tuple[int, ...]


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """A read-only view broadcast to a shape."""
    return x.view(
        layouts.broadcast(x.layout, layouts.as_shape(shape, "broadcast_to"), "broadcast_to")
    )


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Views of all arrays broadcast to their common shape."""
    shape = layouts.broadcast_shapes("broadcast_arrays", *(array.shape for array in arrays))
    return [broadcast_to(array, shape) for array in arrays]


def expand_dims(x: Array, /, axis: int) -> Array:
    """A view with an axis of extent 1 more."""
    dim = normalize_axis(axis, x.ndim + 1, "expand_dims")
    shape = (*x.shape[:dim], 1, *x.shape[dim:])
    return x.view(Layout(shape, (*x.strides[:dim], 0, *x.strides[dim:]), x.offset))


def squeeze(x: Array, /, axis: Axes) -> Array:
    """A view without these axes, which have extent 1."""
    removed = normalize_axes(axis, x.ndim, "squeeze")
    for dim in removed:
        if x.shape[dim] != 1:
            raise ShapeError(f"squeeze: expected extent 1 on axis {dim}, got {x.shape[dim]}")
    remaining = tuple(axis for axis in range(x.ndim) if axis not in removed)
    return x.view(layouts.permute(x.layout, remaining))


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """A view with the axes in another order."""
    order = normalize_axes(tuple(axes), x.ndim, "permute_dims")
    if len(order) != x.ndim:
        raise ShapeError(f"permute_dims: expected {x.ndim} axes, got {len(order)}")
    return x.view(layouts.permute(x.layout, order))


def matrix_transpose(x: Array, /) -> Array:
    """A view with the last two axes exchanged."""
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: expected at least 2 axes, got shape {x.shape}")
    return x.mT


def moveaxis(x: Array, source: Axes, destination: Axes, /) -> Array:
    """A view with some axes moved to other positions."""
    sources = normalize_axes(source, x.ndim, "moveaxis")
    destinations = normalize_axes(destination, x.ndim, "moveaxis")
    if len(sources) != len(destinations):
        raise ShapeError(
            f"moveaxis: expected as many destinations as sources, got {source} and {destination}"
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return x.view(layouts.permute(x.layout, tuple(order)))


def flip(x: Array, /, *, axis: Axes | None = None) -> Array:
    """A view with the elements along some axes in reverse."""
    flipped = normalize_axes(axis, x.ndim, "flip")
    key = tuple(slice(None, None, -1 if at in flipped else 1) for at in range(x.ndim))
    return x.view(layouts.index(x.layout, key))


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The elements in C order in another shape: a view where strides allow, else a copy."""
    wanted = _complete(x, (shape,) if isinstance(shape, int) else tuple(shape))
    if copy:
        return reshape(transfer.copy(x, "reshape"), wanted)
    found = layouts.reshape(x.layout, wanted, x.dtype.itemsize)
    if found is not None:
        return x.view(found)
    if copy is False:
        raise ArrayBufferError(
            f"reshape: expected a contiguous layout, got strides {x.strides} for shape {x.shape}",
            "allow a copy",
        )
    return reshape(transfer.copy(x, "reshape"), wanted)


def _complete(x: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with its one extent of -1 worked out."""
    extents = [operator.index(extent) for extent in shape]
    known = math.prod(extent for extent in extents if extent != -1)
    if extents.count(-1) == 1 and known > 0 and x.size % known == 0:
        extents[extents.index(-1)] = x.size // known
    if any(extent < 0 for extent in extents) or math.prod(extents) != x.size:
        raise ShapeError(f"reshape: expected a shape of {x.size} elements, got {tuple(shape)}")
    return tuple(extents)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Views of the parts along an axis."""
    if x.ndim == 0:
        raise ShapeError("unstack: expected at least 1 axis, got a 0-d array")
    front = moveaxis(x, axis, 0)
    return tuple(front[position] for position in range(front.shape[0]))


def _joined(arrays: Sequence[Array], operation: str) -> dtypes.DType:
    if not arrays:
        raise ShapeError(f"{operation}: expected at least one array, got none")
    promoted = arrays[0].dtype
    for array in arrays[1:]:
        promoted = dtypes.promote(promoted, array.dtype, operation)
    return promoted


def concat(arrays: tuple[Array, ...] | list[Array], /, *, axis: int | None = 0) -> Array:
    """The arrays one after the other along an axis, or all elements in a row for None."""
    dtype = _joined(arrays, "concat")
    if axis is None:
        arrays, axis = [reshape(array, (-1,)) for array in arrays], 0
    first = arrays[0]
    dim = normalize_axis(axis, first.ndim, "concat")
    others = [(*array.shape[:dim], *array.shape[dim + 1 :]) for array in arrays]
    if any(array.ndim != first.ndim for array in arrays) or len(set(others)) > 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"concat: expected shapes equal but on axis {dim}, got {shapes}")
    total = sum(array.shape[dim] for array in arrays)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    if allocation.common_device("concat", list(arrays)).capabilities.has_array_kernels:
        out = allocation.empty(first.device, shape, dtype, "concat")
        begin = 0
        for array in arrays:
            end = begin + array.shape[dim]
            key = (*(slice(None),) * dim, slice(begin, end))
            transfer.copy_into(out.view(layouts.index(out.layout, key)), array, "concat")
            begin = end
        return out
    return numpy_kernels.compute(
        "concat",
        lambda *views: np.concatenate(views[:-1], dim, out=views[-1], casting="unsafe"),
        list(arrays),
        shape,
        dtype,
    )


def stack(arrays: tuple[Array, ...] | list[Array], /, *, axis: int = 0) -> Array:
    """The arrays side by side along a new axis."""
    dtype = _joined(arrays, "stack")
    if len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"stack: expected equal shapes, got {shapes}")
    shape = arrays[0].shape
    dim = normalize_axis(axis, len(shape) + 1, "stack")
    if arrays[0].device.capabilities.has_array_kernels:
        return concat([expand_dims(array, dim) for array in arrays], axis=dim)
    return numpy_kernels.compute(
        "stack",
        lambda *views: np.stack(views[:-1], dim, out=views[-1], casting="unsafe"),
        list(arrays),
        (*shape[:dim], len(arrays), *shape[dim:]),
        dtype,
    )


def roll(
    x: Array, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None
) -> Array:
    """The elements moved along some axes; what leaves at one end enters at the other."""
    axes = None if axis is None else normalize_axes(axis, x.ndim, "roll")
    if x.device.capabilities.has_array_kernels and x.size:
        return _rolled(x, shift, axes)
    return numpy_kernels.compute(
        "roll",
        lambda view, out: np.copyto(out, np.roll(view, shift, axes if axes is None else axis)),
        [x],
        x.shape,
        x.dtype,
    )


def _rolled(x: Array, shift: int | tuple[int, ...], axes: tuple[int, ...] | None) -> Array:
    """The two parts of each axis in the other order, one axis after the other."""
    if axes is None:
        flat = reshape(x, (-1,))
        total = shift if isinstance(shift, int) else sum(shift)
        return reshape(_rolled(flat, total, (0,)), x.shape)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    result = transfer.copy(x, "roll") if not axes else x
    for by, dim in zip(shifts, axes, strict=True):
        cut = -by % x.shape[dim]
        lead = (slice(None),) * dim
        parts = [result[(*lead, slice(cut, None))], result[(*lead, slice(None, cut))]]
        result = concat(parts, axis=dim)
    return result


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element, or each part along an axis, several times."""
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    dim = normalize_axis(axis, x.ndim, "repeat")
    if x.device.capabilities.has_array_kernels and x.size and x.ndim < elementwise_kernels.MAX_NDIM:
        return _repeated(x, repeats, dim)
    if isinstance(repeats, Array):
        dtypes.require_kind(repeats.dtype, dtypes.INTEGRAL, "repeat")
        counts = np.asarray(transfer.values(repeats))
    else:
        counts = np.asarray(operator.index(repeats))
    if counts.ndim > 1 or counts.size not in (1, x.shape[dim]):
        raise ShapeError(f"repeat: expected 1 or {x.shape[dim]} counts, got shape {counts.shape}")
    if counts.size and int(counts.min()) < 0:
        raise ShapeError(f"repeat: expected counts of at least 0, got {int(counts.min())}")
    total = int(np.broadcast_to(counts, (x.shape[dim],)).sum())
    return numpy_kernels.compute(
        "repeat",
        lambda view, out: np.copyto(out, np.repeat(view, counts, dim)),
        [x],
        (*x.shape[:dim], total, *x.shape[dim + 1 :]),
        x.dtype,
    )


def _repeated(x: Array, repeats: int | Array, dim: int) -> Array:
    """A broadcast copy for one repeat count, else a gather by the cumulative sums of the counts."""
    extent = x.shape[dim]
    if isinstance(repeats, Array):
        dtypes.require_kind(repeats.dtype, dtypes.INTEGRAL, "repeat")
        allocation.common_device("repeat", [x, repeats])
        if repeats.ndim > 1 or repeats.size not in (1, extent):
            raise ShapeError(f"repeat: expected 1 or {extent} counts, got shape {repeats.shape}")
        lowest = indexing.min_max(repeats, "repeat")[0]
    else:
        lowest = operator.index(repeats)
    if lowest < 0:
        raise ShapeError(f"repeat: expected counts of at least 0, got {lowest}")
    if not isinstance(repeats, Array) or repeats.size == 1:
        before, after = x.shape[:dim], x.shape[dim + 1 :]
        wide = broadcast_to(expand_dims(x, dim + 1), (*before, extent, lowest, *after))
        return reshape(transfer.copy(wide, "repeat"), (*before, extent * lowest, *after))
    offsets = axis_kernels.scan("repeat", "add", repeats, 0, dtypes.int64)
    numbers = axis_kernels.arange("repeat", x.device, int(offsets[-1]))
    indices = axis_kernels.searchsorted("repeat", offsets, numbers, right=True)
    return axis_kernels.gather("repeat", x, indices, dim)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """The whole array several times along its axes."""
    counts = layouts.as_shape(repetitions, "tile")
    length = max(x.ndim, len(counts))
    shape = (1,) * (length - x.ndim) + x.shape
    times = (1,) * (length - len(counts)) + counts
    if x.device.capabilities.has_array_kernels and 2 * length <= elementwise_kernels.MAX_NDIM:
        # Every axis behind one along which nothing changes.
        pairs = [part for count, extent in zip(times, shape, strict=True) for part in (1, extent)]
        wide = [part for pair in zip(times, shape, strict=True) for part in pair]
        whole = transfer.copy(broadcast_to(reshape(x, tuple(pairs)), tuple(wide)), "tile")
        return reshape(
            whole, tuple(extent * count for extent, count in zip(shape, times, strict=True))
        )
    return numpy_kernels.compute(
        "tile",
        lambda view, out: np.copyto(out, np.tile(view, counts)),
        [x],
        tuple(extent * count for extent, count in zip(shape, times, strict=True)),
        x.dtype,
    )
