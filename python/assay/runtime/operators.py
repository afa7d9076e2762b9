"""The operators and conversions of arrays, added to the class when `assay.runtime` is imported.

Operations build on `Array`, so the class itself cannot import them. This module is above both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from assay.errors import ArrayBufferError, AssayError, DTypeError, ShapeError, UnsupportedError
from assay.lazy_import import LazyModule, np
from assay.runtime.array import Array
from assay.runtime.hardware import Device, device

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.runtime import cuda_array_interface, elementwise, indexing, interop, transfer
else:
    cuda_array_interface = LazyModule(
        "assay.runtime.cuda_array_interface", globals(), "cuda_array_interface"
    )
    elementwise = LazyModule("assay.runtime.elementwise", globals(), "elementwise")
    indexing = LazyModule("assay.runtime.indexing", globals(), "indexing")
    interop = LazyModule("assay.runtime.interop", globals(), "interop")
    transfer = LazyModule("assay.runtime.transfer", globals(), "transfer")

VERSIONS: Final = ("2024.12", "2023.12", "2022.12")
"""Versions of the array API standard that `assay.xp` implements."""

BINARY: Final = {
    "__pow__": "pow",
    "__eq__": "equal",
    "__ne__": "not_equal",
    "__lt__": "less",
    "__le__": "less_equal",
    "__gt__": "greater",
    "__ge__": "greater_equal",
}
"""Operators with two operands that the native class does not define, and their ufuncs."""

IN_PLACE: Final = {
    "__iadd__": "add",
    "__isub__": "subtract",
    "__imul__": "multiply",
    "__itruediv__": "divide",
    "__ifloordiv__": "floor_divide",
    "__imod__": "remainder",
    "__ipow__": "pow",
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "bitwise_left_shift",
    "__irshift__": "bitwise_right_shift",
}
"""Augmented assignments and their ufuncs."""


def _binary(ufunc: str) -> Callable[[Any, Any], Any]:
    return lambda self, other, /: elementwise.binary(ufunc, self, other)


def _in_place(ufunc: str) -> Callable[[Any, Any], Any]:
    return lambda self, other, /: elementwise.in_place(ufunc, self, other)


def _to_numpy(self: Array) -> npt.NDArray[Any]:
    """The elements as a NumPy array: a view of host memory, else a copy.

    bfloat16 elements are returned as the uint16 that stores them.
    """
    return transfer.to_numpy(self)


def _to_device(self: Array, device: Device | str, /, *, stream: Any = None) -> Array:
    """The elements on another device; the array itself if it is there already."""
    if stream is not None:
        raise UnsupportedError(
            f"to_device: expected stream None, got {stream!r}", "use `with stream:`"
        )
    return transfer.to_device(self, device)


def _tolist(self: Array) -> Any:
    """The elements as nested lists of Python numbers."""
    return transfer.values(self).tolist()


def _array_namespace(self: Array, *, api_version: str | None = None) -> ModuleType:
    """The array API namespace, `assay.xp`."""
    if api_version is not None and api_version not in VERSIONS:
        raise UnsupportedError(
            f"__array_namespace__: expected a known version, got {api_version!r}",
            f"one of: {', '.join(VERSIONS)}",
        )
    # By its name in the package: the namespace is built on arrays, which cannot import it.
    namespace: ModuleType = sys.modules["assay"].xp
    return namespace


def _array(self: Array, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
    if copy is False and not self.device.host_memory:
        raise ArrayBufferError(
            f"__array__: expected memory of the host, got device {self.device}", "allow a copy"
        )
    return np.array(self.to_numpy(), dtype=dtype, copy=copy)


def _dlpack(
    self: Array,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The array as a DLPack capsule."""
    return interop.to_dlpack(self, stream, max_version, dl_device, copy)


def _cuda_array_interface(self: Array) -> dict[str, Any]:
    """The array's GPU memory, by version 3 of the CUDA array interface."""
    return cuda_array_interface.describe(self)


def _copy(self: Array) -> Array:
    """The same elements in new memory."""
    return transfer.copy(self)


def _deepcopy(self: Array, memo: dict[int, Any]) -> Array:
    """The same elements in new memory."""
    return transfer.copy(self)


def _reduce(self: Array) -> tuple[Any, ...]:
    """Pickled as its stored elements; loading needs a device of the same name."""
    stored = np.asarray(transfer.to_numpy(self), order="C")
    return interop.restore, (self.device.name, self.dtype.name, stored)


def _item(array: Array, operation: str, kinds: tuple[str, ...]) -> Any:
    """The value of a 0-d array, as a Python number."""
    if array.ndim != 0:
        raise ShapeError(f"{operation}: expected a 0-d array, got shape {array.shape}")
    if array.dtype.kind not in kinds:
        raise DTypeError(f"{operation}: expected {' or '.join(kinds)}, got {array.dtype}")
    return transfer.values(array).item()


def _bool(self: Array) -> bool:
    return bool(_item(self, "bool", ("bool", "int", "uint", "float", "complex")))


def _int(self: Array) -> int:
    return int(_item(self, "int", ("bool", "int", "uint", "float")))


def _float(self: Array) -> float:
    return float(_item(self, "float", ("bool", "int", "uint", "float")))


def _complex(self: Array) -> complex:
    return complex(_item(self, "complex", ("bool", "int", "uint", "float", "complex")))


def _index(self: Array) -> int:
    return int(_item(self, "index", ("int", "uint")))


def _repr(self: Array) -> str:
    try:
        text = np.array2string(transfer.values(self), separator=", ", threshold=100)
    except AssayError as error:
        text = f"<{error.message}>"
    where = "" if self.device is device("cpu") else f", device={self.device}"
    return f"Array({text}, dtype={self.dtype}{where})"


_CORNER: Final = 8
"""Elements along an axis of a large array that a notebook shows."""


def _repr_html(self: Array) -> str:
    from assay.notebook import preformatted

    is_large = self.size > _CORNER * _CORNER
    corner = self[tuple(slice(0, _CORNER) for _ in self.shape)] if is_large else self
    try:
        text = np.array2string(transfer.values(corner), separator=", ", threshold=1000)
    except AssayError as error:
        text = f"<{error.message}>"
    title = f"array of {' x '.join(map(str, self.shape)) or 'one'}, {self.dtype}, {self.device}"
    if corner.size < self.size:
        title += f"; its first {' x '.join(map(str, corner.shape))}"
    return preformatted(title, text)


_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "to_numpy": _to_numpy,
    "to_device": _to_device,
    "tolist": _tolist,
    "__array_namespace__": _array_namespace,
    "__array__": _array,
    "__dlpack__": _dlpack,
    "__copy__": _copy,
    "__deepcopy__": _deepcopy,
    "__reduce__": _reduce,
    "__bool__": _bool,
    "__int__": _int,
    "__float__": _float,
    "__complex__": _complex,
    "__index__": _index,
    "__repr__": _repr,
    "_repr_html_": _repr_html,
    "__getitem__": lambda self, key, /: indexing.get(self, key),
    "__setitem__": lambda self, key, value, /: indexing.set_(self, key, value),
    "__rpow__": lambda self, other, /: elementwise.binary("pow", other, self),
    "__matmul__": lambda self, other, /: elementwise.matmul(self, other),
    "__rmatmul__": lambda self, other, /: elementwise.matmul(other, self),
    "__imatmul__": lambda self, other, /: elementwise.matmul_in_place(self, other),
    **{name: _binary(ufunc) for name, ufunc in BINARY.items()},
    **{name: _in_place(ufunc) for name, ufunc in IN_PLACE.items()},
}


def install() -> None:
    """Add the operators and conversions to `Array`."""
    for name, method in _METHODS.items():
        method.__name__ = name
        method.__qualname__ = f"Array.{name}"
        setattr(Array, name, method)
    Array.__cuda_array_interface__ = property(_cuda_array_interface)  # type: ignore[method-assign,assignment]
