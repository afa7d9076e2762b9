"""Linear algebra: decompositions, solvers and norms, applied to each matrix of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from assay.errors import ConvergenceError, InputError, ShapeError
from assay.runtime import dtypes, numpy_kernels, transfer
from assay.runtime.array import Array
from assay.runtime.dtypes import FLOATING, NUMERIC, DType
from assay.runtime.layout import Layout, normalize_axes, normalize_axis
from assay.xp.binary import multiply
from assay.xp.contractions import matmul as matmul, tensordot as tensordot, vecdot as vecdot
from assay.xp.manipulation import matrix_transpose as matrix_transpose
from assay.xp.statistics import sum as sum_of


class EighResult(NamedTuple):
    """The result of `eigh`: eigenvalues in ascending order, and eigenvectors in columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """The result of `qr`: an orthonormal and an upper triangular matrix."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: sign and logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """The result of `svd`: left vectors, descending singular values, right vectors in rows."""

    U: Array
    S: Array
    Vh: Array


def _matrices(x: Array, operation: str, square: bool = False) -> None:
    dtypes.require_kind(x.dtype, FLOATING, operation)
    if x.ndim < 2:
        raise ShapeError(f"{operation}: expected at least 2 axes, got shape {x.shape}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{operation}: expected square matrices, got shape {x.shape}")


def _run(operation: str, function: Callable[..., Any], *arrays: Array) -> list[Array]:
    """Run a NumPy routine on the host; half precision is computed in single."""
    promoted = arrays[0].dtype
    for other in arrays[1:]:
        promoted = dtypes.promote(promoted, other.dtype, operation)
    half = promoted.kind == "float" and promoted.itemsize == 2
    kind = np.dtype(np.float32) if half else promoted.storage

    def routine(*views: Any) -> Any:
        try:
            result = function(*(view.astype(kind, copy=False) for view in views))
        except np.linalg.LinAlgError as error:
            kind_of = ConvergenceError if "converge" in str(error) else InputError
            raise kind_of(f"{operation}: {str(error).lower()}") from error
        return result if isinstance(result, tuple) else (result,)

    parts = numpy_kernels.collect(operation, routine, list(arrays))
    return [
        transfer.store(
            operation, arrays[0].device, np.asarray(part), _result_dtype(part, promoted, half)
        )
        for part in parts
    ]


def _result_dtype(part: Any, dtype: DType, half: bool) -> DType:
    result = np.asarray(part).dtype
    return dtype if half and result == np.float32 else dtypes.BY_NAME[result.name]


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The Cholesky decomposition of a positive-definite matrix."""
    _matrices(x, "cholesky", square=True)

    def routine(view: Any) -> Any:
        lower = np.linalg.cholesky(np.conj(np.swapaxes(view, -1, -2)) if upper else view)
        return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower

    return _run("cholesky", routine, x)[0]


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of three elements."""
    for x in (x1, x2):
        dtypes.require_kind(x.dtype, NUMERIC, "cross")
        if x.shape[normalize_axis(axis, x.ndim, "cross")] != 3:
            raise ShapeError(f"cross: expected 3 elements on axis {axis}, got shape {x.shape}")
    return _run("cross", lambda a, b: np.cross(a, b, axis=axis), x1, x2)[0]


def det(x: Array, /) -> Array:
    """The determinant."""
    _matrices(x, "det", square=True)
    return _run("det", np.linalg.det, x)[0]


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """A view of one diagonal of the last two axes."""
    if x.ndim < 2:
        raise ShapeError(f"diagonal: expected at least 2 axes, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    length = min(rows + min(offset, 0), columns - max(offset, 0))
    down, across = x.strides[-2:]
    start = x.offset + (offset * across if offset >= 0 else -offset * down)
    diagonal_length = max(length, 0)
    layout = Layout(
        (*x.shape[:-2], diagonal_length),
        (*x.strides[:-2], down + across),
        start if diagonal_length else x.offset,
    )
    return x.view(layout)


def eigh(x: Array, /) -> EighResult:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix."""
    _matrices(x, "eigh", square=True)
    return EighResult(*_run("eigh", lambda view: tuple(np.linalg.eigh(view)), x))


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of a symmetric or Hermitian matrix."""
    _matrices(x, "eigvalsh", square=True)
    return _run("eigvalsh", np.linalg.eigvalsh, x)[0]


def inv(x: Array, /) -> Array:
    """The inverse."""
    _matrices(x, "inv", square=True)
    return _run("inv", np.linalg.inv, x)[0]


def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Array:
    """The norm of each matrix: Frobenius, nuclear, by rows, by columns or by singular values."""
    _matrices(x, "matrix_norm")
    kind: Any = ord

    def routine(view: Any) -> Any:
        return np.linalg.norm(view, ord=kind, axis=(-2, -1), keepdims=keepdims)

    return _run("matrix_norm", routine, x)[0]


def matrix_power(x: Array, n: int, /) -> Array:
    """An integer power of a square matrix; a negative one is of its inverse."""
    _matrices(x, "matrix_power", square=True)
    return _run("matrix_power", lambda view: np.linalg.matrix_power(view, n), x)[0]


def _tolerance(rtol: float | Array | None) -> Any:
    return transfer.values(rtol) if isinstance(rtol, Array) else rtol


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The number of singular values above the tolerance."""
    _matrices(x, "matrix_rank")
    share = _tolerance(rtol)

    def routine(view: Any) -> Any:
        singular = np.linalg.svd(view, compute_uv=False)
        epsilon = np.finfo(singular.dtype).eps
        limit = max(view.shape[-2:]) * epsilon if share is None else np.asarray(share)
        largest = singular.max(axis=-1, keepdims=True, initial=0)
        threshold = largest * np.asarray(limit)[..., np.newaxis]
        return np.count_nonzero(singular > threshold, axis=-1).astype(np.int64)

    return _run("matrix_rank", routine, x)[0]


def outer(x1: Array, x2: Array, /) -> Array:
    """The outer product of two vectors."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"outer: expected 1 axis each, got shapes {x1.shape} and {x2.shape}")
    return multiply(x1[:, None], x2[None, :])


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The Moore-Penrose pseudo-inverse."""
    _matrices(x, "pinv")
    share = _tolerance(rtol)

    def routine(view: Any) -> Any:
        limit = max(view.shape[-2:]) * np.finfo(view.dtype).eps if share is None else share
        return np.linalg.pinv(view, rcond=limit)

    return _run("pinv", routine, x)[0]


def qr(x: Array, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """The QR decomposition."""
    _matrices(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ShapeError(f'qr: expected mode "reduced" or "complete", got {mode!r}')
    return QRResult(*_run("qr", lambda view: tuple(np.linalg.qr(view, mode)), x))


def slogdet(x: Array, /) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of the determinant."""
    _matrices(x, "slogdet", square=True)
    return SlogdetResult(*_run("slogdet", lambda view: tuple(np.linalg.slogdet(view)), x))


def solve(x1: Array, x2: Array, /) -> Array:
    """The solution of a system of linear equations."""
    _matrices(x1, "solve", square=True)
    dtypes.require_kind(x2.dtype, FLOATING, "solve")

    def routine(a: Any, b: Any) -> Any:
        # A vector, unlike a stack of matrices, has exactly one axis.
        return (
            np.linalg.solve(a, b[:, np.newaxis])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)
        )

    return _run("solve", routine, x1, x2)[0]


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition."""
    _matrices(x, "svd")
    return SVDResult(
        *_run("svd", lambda view: tuple(np.linalg.svd(view, full_matrices=full_matrices)), x)
    )


def svdvals(x: Array, /) -> Array:
    """The singular values."""
    _matrices(x, "svdvals")
    return _run("svdvals", lambda view: np.linalg.svd(view, compute_uv=False), x)[0]


def trace(x: Array, /, *, offset: int = 0, dtype: DType | str | None = None) -> Array:
    """The sum of one diagonal of each matrix."""
    return sum_of(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Array:
    """The norm of the elements along the axes, as one vector."""
    dtypes.require_kind(x.dtype, FLOATING, "vector_norm")
    axes: Sequence[int] = normalize_axes(axis, x.ndim, "vector_norm")

    def routine(view: Any) -> Any:
        size = np.abs(view)
        if ord == math.inf:
            return size.max(axis=tuple(axes), keepdims=keepdims)
        if ord == -math.inf:
            return size.min(axis=tuple(axes), keepdims=keepdims)
        if ord == 0:
            return np.sum(size != 0, axis=tuple(axes), keepdims=keepdims).astype(size.dtype)
        total = np.sum(size**ord, axis=tuple(axes), keepdims=keepdims)
        return (total ** (1 / ord)).astype(size.dtype)

    return _run("vector_norm", routine, x)[0]
