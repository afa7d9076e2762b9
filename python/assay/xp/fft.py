"""Discrete Fourier transforms: kernels of the device along one axis in single precision, else NumPy on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from assay.errors import DTypeError, ShapeError
from assay.runtime import allocation, dtypes, fourier, numpy_kernels, transfer
from assay.runtime.array import Array
from assay.runtime.dtypes import FLOATING
from assay.runtime.hardware import device as find_device
from assay.runtime.layout import normalize_axes, normalize_axis
from assay.xp.creation import Type, Where
from assay.xp.manipulation import moveaxis

Norm = Literal["backward", "ortho", "forward"]
Extents = Sequence[int] | None
_NORMS = ("backward", "ortho", "forward")
_KERNELS = ("fft", "ifft", "rfft", "irfft")
"""The transforms that devices have kernels of, in single precision; the others run in NumPy."""


def _run(
    operation: str, x: Array, kinds: tuple[str, ...], norm: str, call: Callable[..., Any]
) -> Array:
    dtypes.require_kind(x.dtype, kinds, operation)
    if x.dtype.itemsize == 2:
        raise DTypeError(
            f"{operation}: expected single or double precision, got {x.dtype}",
            "convert it with astype",
        )
    if norm not in _NORMS:
        raise ShapeError(f"{operation}: expected norm {', '.join(_NORMS)}, got {norm!r}")
    result = numpy_kernels.collect(operation, call, [x])
    single = x.dtype in (dtypes.float32, dtypes.complex64)
    # NumPy before 2.0 always returns double precision.
    if result.dtype.kind == "c":
        result_dtype = dtypes.complex64 if single else dtypes.complex128
    else:
        result_dtype = dtypes.float32 if single else dtypes.float64
    return transfer.store(operation, x.device, result, result_dtype)


def _one(
    operation: str, x: Array, n: int | None, axis: int, norm: Norm, kinds: tuple[str, ...]
) -> Array:
    dim = normalize_axis(axis, x.ndim, operation)
    if n is not None and n < 1:
        raise ShapeError(f"{operation}: expected at least 1 point, got {n}")
    if _has_kernel(operation, x) and norm in _NORMS:
        dtypes.require_kind(x.dtype, kinds, operation)
        return _on_device(operation, x, n, dim, norm)
    transform: Any = getattr(np.fft, operation)
    return _run(operation, x, kinds, norm, lambda view: transform(view, n=n, axis=dim, norm=norm))


def _has_kernel(operation: str, x: Array) -> bool:
    single = x.dtype in (dtypes.float32, dtypes.complex64)
    return single and operation in _KERNELS and fourier.has_kernels(x.device)


def _on_device(operation: str, x: Array, n: int | None, dim: int, norm: Norm) -> Array:
    """Single precision along one axis: rows of the last axis, cut or padded to the length."""
    length = n or (2 * (x.shape[dim] - 1) if operation == "irfft" else x.shape[dim])
    if length < 1:
        raise ShapeError(f"{operation}: expected at least 1 point, got {length}")
    width = length // 2 + 1 if operation == "irfft" else length
    rows = moveaxis(x, dim, -1)
    dtype = dtypes.float32 if operation == "rfft" else dtypes.complex64
    if rows.shape[-1] != width or rows.dtype is not dtype or not fourier.is_operand(rows):
        kept = min(width, rows.shape[-1])
        copy = allocation.zeros(x.device, (*rows.shape[:-1], width), dtype, operation)
        copy[..., :kept] = rows[..., :kept]
        rows = copy
    scaled = {"backward": operation in ("ifft", "irfft"), "forward": operation in ("fft", "rfft")}
    scale = length**-0.5 if norm == "ortho" else 1 / length if scaled[norm] else 1.0
    out = fourier.transform(operation, rows, length, scale)
    return moveaxis(out, -1, dim)


def _several(
    operation: str, x: Array, s: Extents, axes: Extents, norm: Norm, kinds: tuple[str, ...]
) -> Array:
    dims: tuple[int, ...] | None = None
    if axes is not None:
        dims = normalize_axes(tuple(axes), x.ndim, operation)
    elif s is not None:
        dims = tuple(range(x.ndim - len(s), x.ndim))
    transform: Any = getattr(np.fft, operation)
    return _run(operation, x, kinds, norm, lambda view: transform(view, s=s, axes=dims, norm=norm))


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The transform along an axis."""
    return _one("fft", x, n, axis, norm, FLOATING)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse transform along an axis."""
    return _one("ifft", x, n, axis, norm, FLOATING)


def fftn(x: Array, /, *, s: Extents = None, axes: Extents = None, norm: Norm = "backward") -> Array:
    """The transform along several axes."""
    return _several("fftn", x, s, axes, norm, FLOATING)


def ifftn(
    x: Array, /, *, s: Extents = None, axes: Extents = None, norm: Norm = "backward"
) -> Array:
    """The inverse transform along several axes."""
    return _several("ifftn", x, s, axes, norm, FLOATING)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The transform of real input: the non-negative frequencies."""
    return _one("rfft", x, n, axis, norm, ("float",))


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `rfft`."""
    return _one("irfft", x, n, axis, norm, ("complex",))


def rfftn(
    x: Array, /, *, s: Extents = None, axes: Extents = None, norm: Norm = "backward"
) -> Array:
    """The transform of real input along several axes."""
    return _several("rfftn", x, s, axes, norm, ("float",))


def irfftn(
    x: Array, /, *, s: Extents = None, axes: Extents = None, norm: Norm = "backward"
) -> Array:
    """The inverse of `rfftn`."""
    return _several("irfftn", x, s, axes, norm, ("complex",))


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The transform of a Hermitian-symmetric signal, which is real."""
    return _one("hfft", x, n, axis, norm, ("complex",))


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `hfft`."""
    return _one("ihfft", x, n, axis, norm, ("float",))


def _frequencies(
    operation: str, values: Callable[..., Any], n: int, d: float, dtype: Type, device: Where
) -> Array:
    if n < 1:
        raise ShapeError(f"{operation}: expected at least 1 point, got {n}")
    result_dtype = dtypes.float64 if dtype is None else dtypes.as_dtype(dtype, operation)
    dtypes.require_kind(result_dtype, ("float",), operation)
    return transfer.store(operation, find_device(device), values(n, d), result_dtype)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Type = None, device: Where = None) -> Array:
    """The sample frequencies of `fft` for `n` points with spacing `d`."""
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Type = None, device: Where = None) -> Array:
    """The sample frequencies of `rfft` for `n` points with spacing `d`."""
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _shifted(operation: str, x: Array, axes: int | Sequence[int] | None, move: Any) -> Array:
    dims = normalize_axes(axes, x.ndim, operation)
    return numpy_kernels.compute(
        operation, lambda view, out: np.copyto(out, move(view, dims)), [x], x.shape, x.dtype
    )


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Shift the zero-frequency component to the center."""
    return _shifted("fftshift", x, axes, np.fft.fftshift)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, np.fft.ifftshift)
