"""Reading and writing parts of arrays: views for slices, copies for arrays of indices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from assay.errors import DeviceError, DTypeError, IndexingError
from assay.runtime import dtypes, exchange, kernel_axes, launching, layout, selection
from assay.runtime.array import Array
from assay.runtime.layout import broadcast_shapes


def _entries(key: Any) -> tuple[Any, ...]:
    """The key as a tuple of integers, slices, `...`, None and arrays that select."""
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
    """The part that a key selects: a view, or a copy where arrays select."""
    entries = _entries(key)
    if _is_basic(entries):
        return array.view(layout.index(array.layout, entries))
    _check_selection(array, entries)
    selectors = [entry for entry in entries if isinstance(entry, Array)]
    if array.device.has_array_kernels:
        selected = selection.get(array, entries)
        if selected is not None:
            return selected
    found = launching.collect(
        "getitem",
        lambda view, *indices: np.array(view[_filled(entries, indices)]),
        [array, *selectors],
    )
    return launching.store("getitem", array.device, found, array.dtype)


def set_(array: Array, key: Any, value: Any) -> None:
    """Write a value, stretched to fit, into the part that a key selects."""
    entries = _entries(key)
    value = _fitting(array, value)
    if _is_basic(entries):
        target = array.view(layout.index(array.layout, entries))
        if isinstance(value, Array):
            _check_stretch(target.shape, value.shape)
            exchange.copy_into(target, value, "setitem")
        else:
            if target.size:
                launching.require_writable(target, "setitem")
            launching.write("setitem", target, value)
        return
    _check_selection(array, entries)
    if array.device.has_array_kernels and selection.put(array, entries, value):
        return
    selectors = [entry for entry in entries if isinstance(entry, Array)]
    values = [value] if isinstance(value, Array) else []

    def kernel(*views: Any) -> None:
        given = views[0] if values else value
        views[-1][_filled(entries, views[len(values) : -1])] = given

    launching.launch("setitem", kernel, [*values, *selectors], [array])


def _filled(entries: tuple[Any, ...], indices: Any) -> tuple[Any, ...]:
    """The key with NumPy's views in the place of the arrays."""
    views = iter(indices)
    return tuple(next(views) if isinstance(entry, Array) else entry for entry in entries)


def _check_stretch(target: tuple[int, ...], given: tuple[int, ...]) -> None:
    # Leading axes of extent 1 may be dropped, as in NumPy.
    while len(given) > len(target) and given[0] == 1:
        given = given[1:]
    if broadcast_shapes("setitem", target, given) != target:
        raise IndexingError(f"setitem: expected a value that fits shape {target}, got {given}")


def _fitting(array: Array, value: Any) -> Any:
    """The value as an array of a type that fits, or as a NumPy constant."""
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
    """Refuse arrays of indices that reach outside, before anything is queued."""
    axis = 0
    rest = sum(_axes(entry) for entry in entries)
    if rest > array.ndim:
        raise IndexingError(
            f"index: expected at most {array.ndim} indices for shape {array.shape}, got {rest}"
        )
    for entry in entries:
        if entry is Ellipsis:
            axis += array.ndim - rest
            continue
        if isinstance(entry, Array) and entry.dtype.kind == "bool":
            covered = array.shape[axis : axis + entry.ndim]
            # The standard lets a mask that selects nothing be empty where the array is not.
            if any(
                given not in (extent, 0) for given, extent in zip(entry.shape, covered, strict=True)
            ):
                raise IndexingError(f"index: expected a mask of shape {covered}, got {entry.shape}")
        elif isinstance(entry, Array) and entry.size:
            _check_bounds(entry, array.shape[axis], axis)
        elif isinstance(entry, int):
            _check_range(entry, entry, array.shape[axis], axis)
        axis += _axes(entry)


def extremes(indices: Array, operation: str) -> tuple[int, int]:
    """The smallest and the largest of some integers; the host waits for them."""
    if kernel_axes.serve(indices):
        return kernel_axes.extremes(operation, indices)
    found = exchange.values(indices)
    return int(found.min()), int(found.max())


def _check_bounds(indices: Array, extent: int, axis: int) -> None:
    _check_range(*extremes(indices, "index"), extent, axis)


def _check_range(lowest: int, highest: int, extent: int, axis: int) -> None:
    if lowest < -extent or highest >= extent:
        outside = lowest if lowest < -extent else highest
        raise IndexingError(
            f"index: expected indices between {-extent} and {extent - 1} on axis {axis}, "
            f"got {outside}"
        )


def _axes(entry: Any) -> int:
    """How many axes an entry uses up."""
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, Array) and entry.dtype.kind == "bool":
        return entry.ndim
    return 1
