"""Searching, sorting and set functions: argmax, nonzero, where, searchsorted, sort, unique."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from assay.errors import DTypeError, IndexingError, ShapeError
from assay.runtime import (
    allocation,
    axis_kernels,
    dtypes,
    elementwise_kernels,
    indexing,
    interop,
    layout as layouts,
    numpy_kernels,
    transfer,
)
from assay.runtime.array import Array, Scalar
from assay.runtime.dtypes import ANY, REAL, DType
from assay.runtime.layout import broadcast_shapes, normalize_axes, normalize_axis
from assay.xp.statistics import reduced_shape


class UniqueAll(NamedTuple):
    """The distinct elements, their first indices, inverse indices and counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The distinct elements and their counts."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The distinct elements and the inverse indices."""

    values: Array
    inverse_indices: Array


def _arg_reduce(
    operation: str, loop: Callable[..., Any], x: Array, axis: int | None, keepdims: bool
) -> Array:
    dtypes.require_kind(x.dtype, REAL, operation)
    axes = normalize_axes(axis, x.ndim, operation)
    if any_empty(x, axes):
        raise ShapeError(f"{operation}: expected at least one element, got shape {x.shape}")
    dim = None if axis is None else axes[0]

    def kernel(view: Any, out: Any) -> None:
        np.copyto(out, loop(view, axis=dim, keepdims=keepdims))

    shape = reduced_shape(x.shape, axes, keepdims)
    if axis_kernels.supports(x):
        return axis_kernels.argreduce(operation, x, axes, shape, loop is np.argmax)
    return numpy_kernels.compute(operation, kernel, [x], shape, dtypes.int64)


def any_empty(x: Array, axes: tuple[int, ...]) -> bool:
    """Whether one of these axes has no elements."""
    return any(x.shape[axis] == 0 for axis in axes)


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first maximum."""
    return _arg_reduce("argmax", np.argmax, x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first minimum."""
    return _arg_reduce("argmin", np.argmin, x, axis, keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The indices of all nonzero elements, one array per axis."""
    if x.ndim == 0:
        raise ShapeError("nonzero: expected at least 1 axis, got a 0-d array")
    if axis_kernels.supports(x):
        return _nonzero_indices(x)
    found = numpy_kernels.collect("nonzero", np.nonzero, [x])
    return tuple(transfer.store("nonzero", x.device, indices) for indices in found)


def _nonzero_indices(x: Array) -> tuple[Array, ...]:
    """The flat indices, unraveled along each axis."""
    flags = x
    if x.dtype is not dtypes.bool_:
        flags = elementwise_kernels.compute(
            "nonzero", "nonzero(a0)", x.dtype, [x], x.device, x.shape, dtypes.bool_
        )
    flat = axis_kernels.flatnonzero("nonzero", flags)
    if x.ndim == 1:
        return (flat,)
    text = "remainder_(floor_divide(a0,a1),a2)"
    steps = [math.prod(x.shape[axis + 1 :]) for axis in range(x.ndim)]
    return tuple(
        elementwise_kernels.compute(
            "nonzero",
            text,
            dtypes.int64,
            [flat, np.int64(step), np.int64(extent)],
            x.device,
            flat.shape,
            dtypes.int64,
        )
        for step, extent in zip(steps, x.shape, strict=True)
    )


def searchsorted(
    x1: Array, x2: Array, /, *, side: Literal["left", "right"] = "left", sorter: Array | None = None
) -> Array:
    """The insertion indices of `x2` in the sorted `x1`."""
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted: expected 1 axis, got shape {x1.shape}")
    if side not in ("left", "right"):
        raise ShapeError(f'searchsorted: expected side "left" or "right", got {side!r}')
    promoted = dtypes.promote(x1.dtype, x2.dtype, "searchsorted")
    dtypes.require_kind(promoted, REAL, "searchsorted")
    order = [] if sorter is None else [sorter]
    if sorter is not None:
        if sorter.shape != x1.shape:
            raise ShapeError(
                f"searchsorted: expected a sorter of shape {x1.shape}, got {sorter.shape}"
            )
        _checked(sorter, x1.size, "searchsorted")
    device = allocation.common_device("searchsorted", [x1, x2, *order])
    if elementwise_kernels.supports(device, x2.ndim, [promoted]):
        ordered, wanted = (
            one if one.dtype is promoted else transfer.astype(one, promoted, "searchsorted")
            for one in (x1, x2)
        )
        return axis_kernels.searchsorted("searchsorted", ordered, wanted, side == "right", sorter)

    def kernel(*views: Any) -> None:
        sorted_by = views[2] if order else None
        np.copyto(views[-1], np.searchsorted(views[0], views[1], side, sorted_by))

    return numpy_kernels.compute("searchsorted", kernel, [x1, x2, *order], x2.shape, dtypes.int64)


def where(condition: Array, x1: Array | Scalar, x2: Array | Scalar, /) -> Array:
    """Elements of `x1` where the condition holds, of `x2` elsewhere."""
    dtypes.require_kind(condition.dtype, ("bool",), "where")
    first, second = _choices(condition, x1, x2)
    promoted = dtypes.promote(first.dtype, second.dtype, "where")
    shape = broadcast_shapes("where", condition.shape, first.shape, second.shape)
    arrays = [condition, first, second]
    device = allocation.common_device("where", arrays)
    if elementwise_kernels.supports(device, len(shape), [promoted]):
        return elementwise_kernels.compute(
            "where", "where(a0,a1,a2)", promoted, arrays, device, shape, promoted
        )

    def kernel(chosen: Any, a: Any, b: Any, out: Any) -> None:
        np.copyto(out, np.where(chosen, a, b), casting="unsafe")

    return numpy_kernels.compute("where", kernel, arrays, shape, promoted)


def _choices(condition: Array, x1: Array | Scalar, x2: Array | Scalar) -> tuple[Array, Array]:
    if isinstance(x1, Array) and isinstance(x2, Array):
        return x1, x2
    if isinstance(x1, Array) and not isinstance(x2, Array):
        result_dtype = dtypes.scalar_dtype(x2, x1.dtype, "where")
        return x1, interop.asarray(x2, result_dtype, condition.device, None)
    if isinstance(x2, Array) and not isinstance(x1, Array):
        result_dtype = dtypes.scalar_dtype(x1, x2.dtype, "where")
        return interop.asarray(x1, result_dtype, condition.device, None), x2
    either = max(
        np.asarray(x1).dtype, np.asarray(x2).dtype, key=lambda kind: "biufc".index(kind.kind)
    )
    result_dtype = dtypes.BY_NAME[either.name]
    return (
        interop.asarray(x1, result_dtype, condition.device, None),
        interop.asarray(x2, result_dtype, condition.device, None),
    )


def _order(view: Any, axis: int, descending: bool, stable: bool) -> Any:
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(view, axis=axis, kind=kind)
    # Sorted backwards from behind, equal elements keep their order.
    backwards = np.argsort(np.flip(view, axis), axis=axis, kind=kind)
    return np.flip(view.shape[axis] - 1 - backwards, axis)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that sort the elements along an axis."""
    dtypes.require_kind(x.dtype, ANY, "argsort")
    dim = normalize_axis(axis, x.ndim, "argsort")
    if axis_kernels.supports(x):
        return axis_kernels.sort("argsort", x, dim, descending, indices=True)
    return numpy_kernels.compute(
        "argsort",
        lambda view, out: np.copyto(out, _order(view, dim, descending, stable)),
        [x],
        x.shape,
        dtypes.int64,
    )


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements sorted along an axis."""
    dtypes.require_kind(x.dtype, ANY, "sort")
    dim = normalize_axis(axis, x.ndim, "sort")
    if axis_kernels.supports(x):
        return axis_kernels.sort("sort", x, dim, descending, indices=False)

    def kernel(view: Any, out: Any) -> None:
        ordered = np.sort(view, axis=dim, kind="stable" if stable else None)
        np.copyto(out, np.flip(ordered, dim) if descending else ordered)

    return numpy_kernels.compute("sort", kernel, [x], x.shape, x.dtype)


def _unique(x: Array, operation: str, **wanted: bool) -> list[Array]:
    dtypes.require_kind(x.dtype, ANY, operation)
    if axis_kernels.supports(x):
        return _unique_places(x, operation, **wanted)

    def kernel(view: Any) -> Any:
        # Every NaN is different from every other.
        options: dict[str, Any] = {"equal_nan": False, **wanted}
        found = np.unique(view, **options)
        return found if wanted else (found,)

    parts = numpy_kernels.collect(operation, kernel, [x])
    types: list[DType] = [x.dtype] + [dtypes.int64] * (len(parts) - 1)
    return [
        transfer.store(operation, x.device, part, dtype)
        for part, dtype in zip(parts, types, strict=True)
    ]


def _unique_places(
    x: Array,
    operation: str,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> list[Array]:
    """The same by sorting: an element that differs from the one before it begins a run of equals."""
    from assay.xp.manipulation import reshape

    device, count = x.device, x.size
    placed = return_index or return_inverse
    ordered, *order = axis_kernels.sort_flat(operation, reshape(x, (-1,)), indices=placed)
    begins = allocation.empty(device, (count,), dtypes.bool_, operation)
    elementwise_kernels.fill(operation, begins[:1], True)
    # NaN differs from itself, so each is alone.
    elementwise_kernels.launch(
        operation, "not_equal(a0,a1)", x.dtype, [ordered[1:], ordered[:-1]], begins[1:]
    )
    starts = axis_kernels.flatnonzero(operation, begins)
    unique_places = [axis_kernels.gather(operation, ordered, starts, 0)]
    if return_index:
        unique_places.append(axis_kernels.gather(operation, order[0], starts, 0))
    if return_inverse:
        runs = axis_kernels.scan(operation, "add", begins, 0, dtypes.int64)
        inverse = allocation.empty(device, (count,), dtypes.int64, operation)
        axis_kernels.scatter(operation, runs - 1, order[0], inverse, 0, distinct=True)
        unique_places.append(inverse)
    if return_counts:
        counts = allocation.empty(device, starts.shape, dtypes.int64, operation)
        less = "subtract(a0,a1)"
        elementwise_kernels.launch(
            operation, less, dtypes.int64, [starts[1:], starts[:-1]], counts[:-1]
        )
        elementwise_kernels.launch(
            operation, less, dtypes.int64, [np.int64(count), starts[-1:]], counts[-1:]
        )
        unique_places.append(counts)
    return unique_places


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, with their first indices, their inverse and their counts."""
    values, indices, inverse, counts = _unique(
        x, "unique_all", return_index=True, return_inverse=True, return_counts=True
    )
    return UniqueAll(values, indices, _like(inverse, x), counts)


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements and their counts."""
    return UniqueCounts(*_unique(x, "unique_counts", return_counts=True))


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements and the inverse indices."""
    values, inverse = _unique(x, "unique_inverse", return_inverse=True)
    return UniqueInverse(values, _like(inverse, x))


def unique_values(x: Array, /) -> Array:
    """The distinct elements."""
    return _unique(x, "unique_values")[0]


def _like(inverse: Array, x: Array) -> Array:
    from assay.xp.manipulation import reshape

    return reshape(inverse, x.shape)


def _checked(indices: Array, extent: int, operation: str) -> None:
    if indices.dtype.kind not in dtypes.INTEGRAL:
        raise DTypeError(f"{operation}: expected integer indices, got {indices.dtype}")
    if indices.size:
        lowest, highest = indexing.min_max(indices, operation)
        if lowest < -extent or highest >= extent:
            outside = lowest if lowest < -extent else highest
            raise IndexingError(
                f"{operation}: expected indices between {-extent} and {extent - 1}, got {outside}"
            )


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The parts along an axis that the indices name."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"take: expected an axis for shape {x.shape}, got none")
    dim = normalize_axis(0 if axis is None else axis, x.ndim, "take")
    _checked(indices, x.shape[dim], "take")
    device = allocation.common_device("take", [x, indices])
    if (
        device.capabilities.has_array_kernels
        and max(x.ndim, indices.ndim) <= elementwise_kernels.MAX_NDIM
    ):
        return axis_kernels.gather("take", x, indices, dim)
    shape = (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :])
    return numpy_kernels.compute(
        "take",
        lambda view, positions, out: np.copyto(out, np.take(view, positions, axis=dim)),
        [x, indices],
        shape,
        x.dtype,
    )


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """The elements along an axis that the indices name, dim by dim."""
    dim = normalize_axis(axis, x.ndim, "take_along_axis")
    if indices.ndim != x.ndim:
        raise ShapeError(f"take_along_axis: expected {x.ndim} axes, got shape {indices.shape}")
    _checked(indices, x.shape[dim], "take_along_axis")
    others = [(*s[:dim], *s[dim + 1 :]) for s in (x.shape, indices.shape)]
    rest = broadcast_shapes("take_along_axis", *others)
    device = allocation.common_device("take_along_axis", [x, indices])
    if device.capabilities.has_array_kernels and x.ndim <= elementwise_kernels.MAX_NDIM:
        wide, wide_indices = (
            one.view(
                layouts.broadcast(
                    one.layout, (*rest[:dim], one.shape[dim], *rest[dim:]), "take_along_axis"
                )
            )
            for one in (x, indices)
        )
        return axis_kernels.take_along_axis("take_along_axis", wide, wide_indices, dim)
    return numpy_kernels.compute(
        "take_along_axis",
        lambda view, positions, out: np.copyto(out, np.take_along_axis(view, positions, axis=dim)),
        [x, indices],
        (*rest[:dim], indices.shape[dim], *rest[dim:]),
        x.dtype,
    )
