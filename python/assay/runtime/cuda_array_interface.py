"""The CUDA array interface (version 3): GPU memory as a dictionary, exported and imported.

Numba's page "CUDA Array Interface" defines the protocol. Libraries that speak DLPack use that
instead: it also says when the consumer is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from assay._native import cuda_borrow, dlpack_export
from assay.errors import ArrayBufferError, DTypeError, ShapeError
from assay.runtime import dtypes
from assay.runtime.array import Array
from assay.runtime.capabilities import DLPACK_CUDA
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device
from assay.runtime.layout import MAX_BYTES, Layout, row_major

NAME: Final = "__cuda_array_interface__"
LEGACY_STREAM: Final = 1
"""The handle of CUDA's legacy default stream, which other streams of a process are ordered with."""

_HINT: Final = "https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"


class Described(NamedTuple):
    """An array as the interface describes it, checked."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """in bytes"""
    dtype: DType
    writable: bool
    stream: int | None
    """the handle of the stream that writes the elements; None if nothing has to be waited for"""

    def span(self) -> tuple[int, int]:
        """Bytes below the first element, and bytes in total, between the outermost elements."""
        if 0 in self.shape:
            return 0, 0
        ends = [(extent - 1) * step for extent, step in zip(self.shape, self.strides, strict=True)]
        below = -sum(end for end in ends if end < 0)
        return below, below + sum(end for end in ends if end > 0) + self.dtype.itemsize


def parse(interface: object) -> Described:
    """Check a dictionary of the interface, of any version."""
    if not isinstance(interface, Mapping):
        raise ArrayBufferError(f"{NAME}: expected a dictionary, got {type(interface).__name__}")
    for key in ("shape", "typestr", "data", "version"):
        if key not in interface:
            raise ArrayBufferError(f'{NAME}: expected the key "{key}", got none', _HINT)
    if interface.get("mask") is not None:
        raise ArrayBufferError(f"{NAME}: expected no mask, got one")
    shape = _integers("shape", interface["shape"])
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"{NAME}: expected extents of at least 0, got shape {shape}")
    dtype = _dtype(interface["typestr"])
    strides = row_major(shape, dtype.itemsize)
    if interface.get("strides") is not None:
        strides = _integers("strides", interface["strides"])
        if len(strides) != len(shape):
            raise ShapeError(f"{NAME}: expected {len(shape)} strides, got {strides}")
    pointer, read_only = _data(interface["data"])
    described = Described(pointer, shape, strides, dtype, not read_only, _stream(interface))
    below, nbytes = described.span()
    if nbytes > MAX_BYTES or below > pointer:
        raise ShapeError(f"{NAME}: expected memory within the address range, got {nbytes} bytes")
    if nbytes and pointer == 0:
        raise ArrayBufferError(f"{NAME}: expected a pointer, got 0 for {nbytes} bytes")
    if any(step % dtype.itemsize for step in strides if nbytes):
        raise ShapeError(f"{NAME}: expected strides of whole elements, got {strides} bytes")
    return described


def _integers(key: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or any(
        isinstance(one, bool) or not isinstance(one, int) for one in value
    ):
        raise ArrayBufferError(f"{NAME}: expected {key} as a tuple of integers, got {value!r}")
    return tuple(value)


def _dtype(typestr: object) -> DType:
    dtype = None
    # Single bytes have no order; everything else must be little-endian, as GPUs are.
    if isinstance(typestr, str) and len(typestr) > 2 and typestr[0] in "<|":
        dtype = next((one for one in dtypes.ALL if _typestr(one)[1:] == typestr[1:]), None)
    if dtype is None or (typestr[:1] == "|" and dtype.itemsize > 1):  # type: ignore[index]
        raise DTypeError(
            f"{NAME}: expected a supported typestr, got {typestr!r}",
            f"one of: {', '.join(_typestr(one) for one in dtypes.ALL if _typestr(one))}",
        )
    return dtype


def _data(value: object) -> tuple[int, bool]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        pointer, read_only = value
        if isinstance(pointer, int) and not isinstance(pointer, bool) and 0 <= pointer < 2**63:
            return pointer, bool(read_only)
    raise ArrayBufferError(f"{NAME}: expected data as (pointer, read_only), got {value!r}")


def _stream(interface: Mapping[str, Any]) -> int | None:
    stream = interface.get("stream")
    if stream is None:
        return None
    if isinstance(stream, bool) or not isinstance(stream, int) or not 0 < stream < 2**63:
        raise ArrayBufferError(
            f"{NAME}: expected stream None, 1, 2 or a handle, got {stream!r}",
            "0 is ambiguous, so the interface forbids it",
        )
    return stream


def _typestr(dtype: DType) -> str:
    """The type string of NumPy's array interface; empty for bfloat16, which it does not have."""
    if dtype is dtypes.bfloat16:
        return ""
    code = {"bool": "b", "int": "i", "uint": "u", "float": "f", "complex": "c"}[dtype.kind]
    return f"{'|' if dtype.itemsize == 1 else '<'}{code}{dtype.itemsize}"


def borrow(owner: object, target: Device) -> Array:
    """An array over another library's GPU memory, which stays alive while the array does."""
    found = parse(getattr(owner, NAME))
    below, nbytes = found.span()
    buffer = cuda_borrow(
        target._context,
        owner,
        found.pointer - below,
        nbytes,
        target.current_stream()._native,
        writable=found.writable,
        producer=found.stream,
    )
    strides = found.strides if nbytes else row_major(found.shape, found.dtype.itemsize)
    return Array(target, buffer, found.dtype, Layout(found.shape, strides, below))


def describe(array: Array) -> dict[str, Any]:
    """The dictionary of an array; only arrays on a GPU have one.

    The legacy default stream waits for our work, and memory that is freed later is reused only
    after the work queued on that stream: an export that the array holds sees to both.
    """
    if array.__dlpack_device__()[0] != DLPACK_CUDA:
        # An attribute error, so that hasattr says no.
        raise AttributeError(f"{NAME}: expected an array on a GPU, got one on {array.device}")
    typestr = _typestr(array.dtype)
    if not typestr:
        raise AttributeError(
            f"{NAME}: expected a type that the interface has, got {array.dtype}: use DLPack"
        )
    itemsize = array.dtype.itemsize
    array._exported = dlpack_export(
        array.buffer,
        array.offset,
        array.shape,
        [stride // itemsize for stride in array.strides],
        (array.dtype.code, 8 * itemsize),
        device=array.__dlpack_device__(),
        versioned=True,
        read_only=not array.buffer.writable,
        copied=False,
        consumer=LEGACY_STREAM,
    )
    pointer = array.buffer.pointer + array.offset if array.size else 0
    contiguous = array.layout.is_contiguous(itemsize)
    return {
        "shape": array.shape,
        "typestr": typestr,
        "data": (pointer, not array.buffer.writable),
        "strides": None if contiguous else array.strides,
        "stream": LEGACY_STREAM,
        "version": 3,
    }
