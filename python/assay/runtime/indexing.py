"""Indexing: basic indexing gives views, advanced indexing with arrays gives copies."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from assay.errors import DeviceError, DTypeError, IndexingError
from assay.runtime import (
    advanced_indexing,
    allocation,
    axis_kernels,
    dtypes,
    layout,
    numpy_kernels,
    transfer,
)
from assay.runtime.array import Array
from assay.runtime.layout import broadcast_shapes


def _entries(key: Any) -> tuple[Any, ...]:
    """The key as a tuple of integers, slices, `...`, None and index arrays."""
    given = key if isinstance(key, tuple) else (key,)
    return tuple(_entry(entry) for entry in given)


def _entry(entry: Any) -> Any:
    if entry is None or entry is Ellipsis:
        return entry
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        return slice(*(None if part is None else operator.index(part) for part in parts))
    if isinstance(entry, Array):
        if entry.ndim == 0 and entry.dtype.kind in dtypes.INTEGRAL:
            return int(entry)
        if entry.dtype.kind not in ("bool", *dtypes.INTEGRAL):
            raise IndexingError(f"index: expected integers or booleans, got {entry.dtype}")
        return entry
    if isinstance(entry, (bool, list, np.ndarray)):
        kind = type(entry).__name__
        raise IndexingError(
            f"index: expected integers, slices, ..., None or arrays, got {kind}",
            "make it an array with asarray",
        )
    try:
        return operator.index(entry)
    except TypeError:
        kind = type(entry).__name__
        raise IndexingError(
            f"index: expected integers, slices, ..., None or arrays, got {kind}"
        ) from None


def _is_basic(entries: tuple[Any, ...]) -> bool:
    return not any(isinstance(entry, Array) for entry in entries)


def get(array: Array, key: Any) -> Array:
    """x[key]: a view for basic indexing, a copy for advanced indexing."""
    entries = _entries(key)
    if _is_basic(entries):
        return array.view(layout.index(array.layout, entries))
    _check_selection(array, entries)
    index_arrays = [entry for entry in entries if isinstance(entry, Array)]
    if array.device.capabilities.has_array_kernels:
        selected = advanced_indexing.get(array, entries)
        if selected is not None:
            return selected
    found = numpy_kernels.collect(
        "getitem",
        lambda view, *indices: np.array(view[_with_views(entries, indices)]),
        [array, *index_arrays],
    )
    return transfer.store("getitem", array.device, found, array.dtype)


def set_(array: Array, key: Any, value: Any) -> None:
    """x[key] = value, with the value broadcast."""
    entries = _entries(key)
    value = _as_value(array, value)
    if _is_basic(entries):
        target = array.view(layout.index(array.layout, entries))
        if isinstance(value, Array):
            _check_broadcast(target.shape, value.shape)
            transfer.copy_into(target, value, "setitem")
        else:
            if target.size:
                allocation.require_writable(target, "setitem")
            transfer.write("setitem", target, value)
        return
    _check_selection(array, entries)
    if array.device.capabilities.has_array_kernels and advanced_indexing.set_(
        array, entries, value
    ):
        return
    index_arrays = [entry for entry in entries if isinstance(entry, Array)]
    values = [value] if isinstance(value, Array) else []

    def kernel(*views: Any) -> None:
        given = views[0] if values else value
        views[-1][_with_views(entries, views[len(values) : -1])] = given

    numpy_kernels.launch("setitem", kernel, [*values, *index_arrays], [array])


def _with_views(entries: tuple[Any, ...], indices: Any) -> tuple[Any, ...]:
    """The key with its arrays replaced by NumPy views."""
    views = iter(indices)
    return tuple(next(views) if isinstance(entry, Array) else entry for entry in entries)


def _check_broadcast(target: tuple[int, ...], given: tuple[int, ...]) -> None:
    # Leading axes of extent 1 may be dropped, as in NumPy.
    while len(given) > len(target) and given[0] == 1:
        given = given[1:]
    if broadcast_shapes("setitem", target, given) != target:
        raise IndexingError(f"setitem: expected a value that fits shape {target}, got {given}")


def _as_value(array: Array, value: Any) -> Any:
    """The value as an array of a dtype that fits, or as a NumPy scalar."""
    if isinstance(value, Array):
        if value.device is not array.device:
            raise DeviceError(
                f"setitem: expected a value on {array.device}, got one on {value.device}",
                "move it with to_device",
            )
        if dtypes.promote(array.dtype, value.dtype, "setitem") is not array.dtype:
            raise DTypeError(
                f"setitem: expected a value that fits {array.dtype}, got {value.dtype}",
                "convert it with astype",
            )
        return value
    if not isinstance(value, (bool, int, float, complex)):
        raise DTypeError(
            f"setitem: expected an array or a number, got {type(value).__name__}",
            "convert it with asarray",
        )
    if dtypes.scalar_dtype(value, array.dtype, "setitem") is not array.dtype:
        raise DTypeError(f"setitem: expected a number that fits {array.dtype}, got {value!r}")
    try:
        kind = np.float32 if array.dtype is dtypes.bfloat16 else array.dtype.storage
        return np.asarray(value, kind)
    except OverflowError:
        raise DTypeError(
            f"setitem: expected a number that fits {array.dtype}, got {value!r}"
        ) from None


def _check_selection(array: Array, entries: tuple[Any, ...]) -> None:
    """Raise for index arrays out of bounds, before anything is queued."""
    axis = 0
    indexed = sum(_axes(entry) for entry in entries)
    if indexed > array.ndim:
        raise IndexingError(
            f"index: expected at most {array.ndim} indices for shape {array.shape}, got {indexed}"
        )
    for entry in entries:
        if entry is Ellipsis:
            axis += array.ndim - indexed
            continue
        if isinstance(entry, Array) and entry.dtype.kind == "bool":
            covered = array.shape[axis : axis + entry.ndim]
            # The standard allows an empty mask for any extent.
            if any(
                got not in (extent, 0) for got, extent in zip(entry.shape, covered, strict=True)
            ):
                raise IndexingError(f"index: expected a mask of shape {covered}, got {entry.shape}")
        elif isinstance(entry, Array) and entry.size:
            _check_bounds(entry, array.shape[axis], axis)
        elif isinstance(entry, int):
            _check_range(entry, entry, array.shape[axis], axis)
        axis += _axes(entry)


def min_max(indices: Array, operation: str) -> tuple[int, int]:
    """The minimum and maximum of some integers; the host waits for them."""
    if axis_kernels.supports(indices):
        return axis_kernels.min_max(operation, indices)
    host = transfer.values(indices)
    return int(host.min()), int(host.max())


def _check_bounds(indices: Array, extent: int, axis: int) -> None:
    _check_range(*min_max(indices, "index"), extent, axis)


def _check_range(lowest: int, highest: int, extent: int, axis: int) -> None:
    if lowest < -extent or highest >= extent:
        outside = lowest if lowest < -extent else highest
        raise IndexingError(
            f"index: expected indices between {-extent} and {extent - 1} on axis {axis}, "
            f"got {outside}"
        )


def _axes(entry: Any) -> int:
    """How many axes an entry indexes."""
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, Array) and entry.dtype.kind == "bool":
        return entry.ndim
    return 1
