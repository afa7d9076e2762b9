"""The array: a strided view of a device's memory."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from assay._native import NativeArray
from assay.errors import ArrayBufferError, AssayError, DTypeError, ShapeError, UnsupportedError
from assay.lazy_import import LazyModule
from assay.runtime import layout as layouts
from assay.runtime.arithmetic import Arithmetic
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, device
from assay.runtime.layout import Layout, Shape

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from assay.runtime import exchange, indexing, operators
else:
    np = LazyModule("numpy", globals(), "np")
    # These make arrays, so they could not be imported before the class is there.
    exchange = LazyModule("assay.runtime.exchange", globals(), "exchange")
    indexing = LazyModule("assay.runtime.indexing", globals(), "indexing")
    operators = LazyModule("assay.runtime.operators", globals(), "operators")

Scalar = bool | int | float | complex

VERSIONS: Final = ("2024.12", "2023.12", "2022.12")
"""Versions of the array API standard that the namespace follows."""

DLPACK_CPU: Final = 1
DLPACK_CUDA: Final = 2
DLPACK_EXTENSION: Final = 12


def look_at(memory: Any, dtype: DType, layout: Layout) -> npt.NDArray[Any]:
    """A NumPy array of this layout over memory that holds a buffer's bytes."""
    if layout.size == 0:
        return np.empty(layout.shape, dtype.storage)
    return np.ndarray(layout.shape, dtype.storage, memory, layout.offset, layout.strides)


class Array(NativeArray, Arithmetic):
    """Elements of one type in device memory, with a shape, strides and an offset.

    Slicing, transposing and broadcasting give views of the same memory. Operators and the
    functions of `assay.xp` allocate their results from the device's pool and run as recorded
    operations of its current stream.
    """

    __slots__ = ("__weakref__", "_host")

    # NumPy's operators leave mixed expressions to ours, which say what they do not take.
    __array_priority__: Final = 1000

    if TYPE_CHECKING:
        # Kept by the native part, which is made from them and knows no more than that.
        device: Device
        dtype: DType
        layout: Layout
    _host: npt.NDArray[Any] | None

    @property
    def shape(self) -> Shape:
        """The extents of the axes."""
        return self.layout.shape

    @property
    def strides(self) -> Shape:
        """Bytes from one element to the next along each axis."""
        return self.layout.strides

    @property
    def offset(self) -> int:
        """Bytes from the start of the buffer to the first element."""
        return self.layout.offset

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Array:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(f"T: expected 2 axes, got shape {self.shape}", "use permute_dims")
        return self.view(layouts.permute(self.layout, (1, 0)))

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError(f"mT: expected at least 2 axes, got shape {self.shape}")
        axes = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return self.view(layouts.permute(self.layout, axes))

    def view(self, layout: Layout) -> Array:
        """Another view of the same memory."""
        return Array(self.device, self.buffer, self.dtype, layout)

    def host(self) -> npt.NDArray[Any]:
        """The memory as NumPy sees it, without waiting for work that uses it."""
        seen: npt.NDArray[Any] | None = getattr(self, "_host", None)
        if seen is not None:
            return seen
        view = look_at(self.buffer, self.dtype, self.layout)
        if not self.buffer.evictable:
            # Memory that someone looks at stays where it is, so evictable memory is let go of.
            self._host = view
        return view

    def free(self) -> None:
        """Give the memory back now; later use is an error. Refused while other views exist."""
        self._host = None
        self.buffer.free()

    @property
    def resident(self) -> bool:
        """Whether the memory is on the device; what was evicted comes back when it is used."""
        return self.buffer.resident

    def allow_eviction(self) -> Array:
        """Let the memory go to the host whenever memory is short and nothing uses it.

        The least recently used goes first. Refused while other views look at the memory.
        """
        self._host = None
        self.buffer.allow_eviction()
        return self

    def evict(self) -> None:
        """Move the memory to the host now; the next use brings it back byte for byte."""
        self._host = None
        self.buffer.evict(self.device.current_stream()._native)

    def to_numpy(self) -> npt.NDArray[Any]:
        """The elements as a NumPy array: a view where the memory is the host's, else a copy.

        bfloat16 elements come as the uint16 that stores them.
        """
        if self.device.host_memory:
            self.buffer.synchronize()
            return self.host()
        return exchange.download(self)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Array:
        """The elements on another device; the array itself if it is there already."""
        if stream is not None:
            raise UnsupportedError(
                f"to_device: expected stream None, got {stream!r}", "use `with stream:`"
            )
        return exchange.to_device(self, device)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The namespace of functions for this array."""
        if api_version is not None and api_version not in VERSIONS:
            raise UnsupportedError(
                f"__array_namespace__: expected a known version, got {api_version!r}",
                f"one of: {', '.join(VERSIONS)}",
            )
        from assay import xp

        return xp

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False and not self.device.host_memory:
            raise ArrayBufferError(
                f"__array__: expected memory of the host, got device {self.device}",
                "allow a copy",
            )
        return np.array(self.to_numpy(), dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The array as a DLPack capsule."""
        return exchange.to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's numbers for the device."""
        kinds = {"cpu": DLPACK_CPU, "cuda": DLPACK_CUDA}
        return (kinds.get(self.device.kind, DLPACK_EXTENSION), self.device.ordinal)

    def _scalar(self, operation: str, kinds: tuple[str, ...]) -> Any:
        if self.ndim != 0:
            raise ShapeError(f"{operation}: expected a 0-d array, got shape {self.shape}")
        if self.dtype.kind not in kinds:
            raise DTypeError(f"{operation}: expected {' or '.join(kinds)}, got {self.dtype}")
        return exchange.values(self).item()

    def __bool__(self) -> bool:
        return bool(self._scalar("bool", ("bool", "int", "uint", "float", "complex")))

    def __int__(self) -> int:
        return int(self._scalar("int", ("bool", "int", "uint", "float")))

    def __float__(self) -> float:
        return float(self._scalar("float", ("bool", "int", "uint", "float")))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex", ("bool", "int", "uint", "float", "complex")))

    def __index__(self) -> int:
        return int(self._scalar("index", ("int", "uint")))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise ShapeError("len: expected an array with axes, got a 0-d array")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise ShapeError("iter: expected an array with axes, got a 0-d array")
        return (self[position] for position in range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        raise UnsupportedError("in: expected xp.any(x == value), got a search by operator")

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return exchange.values(self).tolist()

    def __repr__(self) -> str:
        try:
            text = np.array2string(exchange.values(self), separator=", ", threshold=100)
        except AssayError as error:
            text = f"<{error.message}>"
        place = "" if self.device is device("cpu") else f", device={self.device}"
        return f"Array({text}, dtype={self.dtype}{place})"

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any, /) -> Array:
        return indexing.get(self, key)

    def __setitem__(self, key: Any, value: Any, /) -> None:
        indexing.set_(self, key, value)

    @staticmethod
    def _binary(name: str, first: Any, second: Any) -> Any:
        return operators.binary(name, first, second)

    def _in_place(self, name: str, other: Any) -> Any:
        return operators.in_place(name, self, other)

    def _matmul(self, first: Any, second: Any) -> Any:
        return operators.matmul(first, second)

    def _matmul_in_place(self, other: Any) -> Any:
        return operators.matmul_in_place(self, other)
