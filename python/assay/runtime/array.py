"""The array: a strided view of a device's memory."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from assay._native import NativeArray
from assay.errors import ShapeError, UnsupportedError
from assay.lazy_import import np
from assay.runtime import layout as layouts
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.runtime.layout import Layout, Shape

if TYPE_CHECKING:
    import numpy.typing as npt

Scalar = bool | int | float | complex


def numpy_view(memory: Any, dtype: DType, layout: Layout) -> npt.NDArray[Any]:
    """A NumPy array of this layout over the bytes of a buffer."""
    if layout.size == 0:
        return np.empty(layout.shape, dtype.storage)
    return np.ndarray(layout.shape, dtype.storage, memory, layout.offset, layout.strides)


class Array(NativeArray):
    """Elements of one dtype in device memory, with a shape, strides and an offset.

    Slicing, transposing and broadcasting give views of the same memory. Operators and the
    functions of `assay.xp` allocate their results from the device's pool and run as recorded
    operations of its current stream.
    """

    __slots__ = ("__weakref__", "_exported", "_host")

    # NumPy defers mixed expressions to our operators, which name the operand they refuse.
    __array_priority__: Final = 1000
    __hash__ = None  # type: ignore[assignment]

    if TYPE_CHECKING:
        # Attributes of the native base class.
        device: Device
        dtype: DType
        layout: Layout
        _exported: Any
        """Keeps memory described by `__cuda_array_interface__` in order with its consumers."""

        # `assay.runtime.operators` adds these: operations build on arrays, not arrays on them.
        def to_numpy(self) -> npt.NDArray[Any]:
            """The elements as a NumPy array."""

        def to_device(self, device: Device | str, /, *, stream: Any = None) -> Array:
            """The elements on another device."""

        def tolist(self) -> Any:
            """The elements as nested lists."""

        def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
        def __dlpack__(
            self,
            *,
            stream: Any = None,
            max_version: tuple[int, int] | None = None,
            dl_device: tuple[int, int] | None = None,
            copy: bool | None = None,
        ) -> Any: ...
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]: ...
        def __copy__(self) -> Array: ...
        def __deepcopy__(self, memo: dict[int, Any]) -> Array: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...
        def __getitem__(self, key: Any, /) -> Array: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...
        def __pow__(self, other: Any, /) -> Any: ...
        def __rpow__(self, other: Any, /) -> Any: ...
        def __matmul__(self, other: Any, /) -> Any: ...
        def __rmatmul__(self, other: Any, /) -> Any: ...
        def __eq__(self, other: Any, /) -> Any: ...
        def __ne__(self, other: Any, /) -> Any: ...
        def __lt__(self, other: Any, /) -> Any: ...
        def __le__(self, other: Any, /) -> Any: ...
        def __gt__(self, other: Any, /) -> Any: ...
        def __ge__(self, other: Any, /) -> Any: ...
        def __iadd__(self, other: Any, /) -> Any: ...
        def __isub__(self, other: Any, /) -> Any: ...
        def __imul__(self, other: Any, /) -> Any: ...
        def __itruediv__(self, other: Any, /) -> Any: ...
        def __ifloordiv__(self, other: Any, /) -> Any: ...
        def __imod__(self, other: Any, /) -> Any: ...
        def __ipow__(self, other: Any, /) -> Any: ...
        def __iand__(self, other: Any, /) -> Any: ...
        def __ior__(self, other: Any, /) -> Any: ...
        def __ixor__(self, other: Any, /) -> Any: ...
        def __ilshift__(self, other: Any, /) -> Any: ...
        def __irshift__(self, other: Any, /) -> Any: ...
        def __imatmul__(self, other: Any, /) -> Any: ...

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
        """The transpose of the last two axes."""
        if self.ndim < 2:
            raise ShapeError(f"mT: expected at least 2 axes, got shape {self.shape}")
        axes = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return self.view(layouts.permute(self.layout, axes))

    def view(self, layout: Layout) -> Array:
        """Another view of the same memory."""
        return Array(self.device, self.buffer, self.dtype, layout)

    def host(self) -> npt.NDArray[Any]:
        """A NumPy view of the memory, without synchronizing with work that uses it."""
        cached: npt.NDArray[Any] | None = getattr(self, "_host", None)
        if cached is not None:
            return cached
        view = numpy_view(self.buffer, self.dtype, self.layout)
        if not self.buffer.evictable:
            # A view pins memory, so views of evictable memory are not cached.
            self._host = view
        return view

    def free(self) -> None:
        """Free the memory now; later use raises. Refused while other views exist.

        Libraries that took it through `__cuda_array_interface__` must not use it any more.
        """
        self._host = self._exported = None
        self.buffer.free()

    @property
    def resident(self) -> bool:
        """Whether the memory is on the device; evicted memory is restored when it is used."""
        return self.buffer.resident

    def allow_eviction(self) -> Array:
        """Allow eviction to the host when device memory runs out and nothing uses this memory.

        Eviction is least recently used first. Refused while other views exist.
        """
        self._host = self._exported = None
        self.buffer.allow_eviction()
        return self

    def evict(self) -> None:
        """Evict the memory to the host now; the next use restores it."""
        self._host = self._exported = None
        self.buffer.evict(self.device.current_stream()._native)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and ordinal."""
        return (self.device.capabilities.dlpack_device_type, self.device.ordinal)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise ShapeError("len: expected an array with axes, got a 0-d array")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise ShapeError("iter: expected an array with axes, got a 0-d array")
        return (self[index] for index in range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        raise UnsupportedError("in: expected xp.any(x == value), got the operator in")
