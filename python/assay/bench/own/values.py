"""What functions and commands take and give: arrays, numbers, text and bytes, by name."""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.errors import InputError
from assay.workloads.contract import Arrays, DataSet, HostArray

BYTES: Final = "bytes"
"""The name of what is text or bytes, such as what a command prints."""
VALUE: Final = "value"
"""The name of an array that stands alone."""
_SCALARS: Final = frozenset(
    [bool, int, float, complex, *(np.dtype(code).type for code in np.typecodes["All"])]
)
"""Exact types of numbers: one that inherits from them may compute once it is read."""
_MEMBERS: Final = _SCALARS | {str, bytes, np.ndarray}
"""What lists may hold besides lists."""
_LISTS: Final = frozenset([list, tuple])
_MOST_AXES: Final = 32
"""NumPy has no arrays of more axes, and a list may contain itself."""


@dataclass(frozen=True, slots=True)
class OwnData(DataSet):
    """Inputs of a sample: of one call, or of several where one is too short for a clock."""

    seed: int
    size: int
    values: tuple[Any, ...]
    """Inputs of each call; `arrays` are those of the first."""


def named_arrays(where: str, value: Any) -> dict[str, HostArray]:
    """A value as arrays by name.

    Types are taken as they are: an object that computes once it is read would not be timed.

    >>> named_arrays("f", (np.arange(2), 1.5)).keys()
    dict_keys(['0', '1'])
    """
    return dict(_named(where, "", value))


def _named(where: str, name: str, value: Any) -> Iterator[tuple[str, HostArray]]:
    if type(value) is tuple:
        for place, part in enumerate(value):
            yield from _named(where, f"{name}.{place}" if name else str(place), part)
    elif type(value) is dict and all(type(key) is str for key in value):
        for key, part in value.items():
            yield from _named(where, f"{name}.{key}" if name else key, part)
    elif type(value) is str:
        yield name or BYTES, np.frombuffer(value.encode(), np.uint8)
    elif type(value) in (bytes, bytearray):
        yield name or BYTES, np.frombuffer(bytes(value), np.uint8)
    else:
        yield name or VALUE, _array(where, value)


def _array(where: str, value: Any) -> HostArray:
    array, got = value, type(value).__name__
    if type(value) is list:
        # NumPy would ask members of other types for what they compute, outside the timed call.
        stranger = _stranger(value)
        array = None if stranger else _of_list(value)
        got = f"a list with {stranger.__name__}" if stranger else "a list that is no array"
    elif type(value) in _SCALARS:
        array = np.asarray(value)
    if type(array) is not np.ndarray or array.dtype.hasobject:
        raise InputError(
            f"{where}: expected arrays, numbers, text or bytes, or a tuple or dict of them, got {got}",
            "return what was computed, not an object that computes it later",
        )
    return array


def _of_list(value: list[Any]) -> HostArray | None:
    """The array of nested lists; None where their lengths differ."""
    try:
        return np.asarray(value)
    except ValueError:
        return None


def _stranger(value: list[Any] | tuple[Any, ...], axes: int = 1) -> type | None:
    """The type of a member of nested lists that is no plain value; None where all are."""
    # By sets of types: a list may have millions of members.
    kinds = set(map(type, value))
    known = _MEMBERS if axes == _MOST_AXES else _MEMBERS | _LISTS
    if not kinds <= known:
        return next(kind for kind in map(type, value) if kind not in known)
    nested = (part for part in value if type(part) in _LISTS) if kinds & _LISTS else ()
    return next(filter(None, (_stranger(part, axes + 1) for part in nested)), None)


def copied(value: Any) -> Any:
    """The same in other memory, which a call may change."""
    return copy.deepcopy(value)


def arguments(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How a function is called with a value: a tuple is several arguments, a dict named ones."""
    if type(value) is tuple:
        return value, {}
    return ((), value) if type(value) is dict else ((value,), {})


def as_file(value: Any) -> bytes:
    """What a command reads: text and bytes as they are, an array as .npy, several as .npz."""
    if type(value) is str:
        return value.encode()
    if type(value) in (bytes, bytearray):
        return bytes(value)
    arrays = named_arrays("the data", value)
    file = io.BytesIO()
    if set(arrays) == {VALUE}:
        np.save(file, arrays[VALUE], allow_pickle=False)
    else:
        # Not by savez, whose own arguments cannot be names of arrays.
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                    np.save(part, array, allow_pickle=False)
    return file.getvalue()


def from_file(where: str, name: str, content: bytes) -> Any:
    """A file of data as functions get it: .npy and .npz as arrays, others as bytes."""
    return _read(where, content) if name.endswith((".npy", ".npz")) else content


def _read(where: str, content: bytes) -> Any:
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{where}: expected a NumPy file, got {error}") from None


def numbers(where: str, arrays: Arrays) -> Mapping[str, HostArray]:
    """Bytes as the numbers that they are: a NumPy file, or numbers between blanks and commas."""
    if set(arrays) != {BYTES}:
        return arrays
    content = arrays[BYTES].tobytes()
    if content.startswith((b"\x93NUMPY", b"PK")):
        return named_arrays(where, _read(where, content))
    words = content.decode("utf-8", "replace").replace(",", " ").split()
    try:
        return {VALUE: np.array([float(word) for word in words])}
    except ValueError as error:
        raise InputError(
            f"{where}: expected numbers between blanks or commas, or a NumPy file: {error}",
            "without a tolerance outputs are compared byte by byte",
        ) from None


def difference(where: str, got: Arrays, expected: Arrays, tolerance: float) -> float:
    """The error of outputs: 0 where all is equal, NaN where something is missing.

    Without a tolerance it is the share of values that differ, else the largest error over the
    largest value, of the worst array.
    """
    if tolerance or (set(got) == {BYTES}) != (set(expected) == {BYTES}):
        got, expected = numbers(where, got), numbers("the reference", expected)
    if not got or set(got) != set(expected):
        return float("nan")
    errors = [_error(got[name], expected[name], tolerance) for name in expected]
    return float("nan") if any(np.isnan(errors)) else max(errors)


def _error(got: HostArray, expected: HostArray, tolerance: float) -> float:
    if got.size != expected.size or (not tolerance and got.dtype != expected.dtype):
        return 1.0
    # A command prints numbers in a row, whatever the shape of the reference's.
    if got.shape != expected.shape and 1 not in (got.ndim, expected.ndim):
        return 1.0
    got, expected = got.reshape(-1), expected.reshape(-1)
    if not tolerance or not (_is_numeric(got) and _is_numeric(expected)):
        return _share_that_differs(got, expected)
    is_same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if is_same.all():
        return 0.0
    away = np.abs(got.astype(np.complex128) - expected)[~is_same].max()
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    error = float(away / max(float(largest), np.finfo(np.float64).tiny))
    return error if np.isfinite(error) else 1.0


def _share_that_differs(got: HostArray, expected: HostArray) -> float:
    if got.dtype != expected.dtype:
        # The same text is as wide as the longest beside it; others have nothing in common.
        is_text = got.dtype.kind == expected.dtype.kind and got.dtype.kind in "US"
        return float((got != expected).mean()) if is_text and got.size else float(not is_text)
    if got.tobytes() == expected.tobytes():
        return 0.0
    rows = (
        np.ascontiguousarray(part).view(np.uint8).reshape(part.size, -1) for part in (got, expected)
    )
    left, right = rows
    return float((left != right).any(axis=1).mean())


def _is_numeric(array: HostArray) -> bool:
    return array.dtype.kind in "biufc"
