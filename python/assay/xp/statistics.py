"""Reductions and scans: sums, means, extrema, cumulative sums and differences."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from assay.errors import ShapeError
from assay.runtime import (
    allocation,
    axis_kernels,
    dtypes,
    elementwise_kernels,
    numpy_kernels,
    transfer,
)
from assay.runtime.array import Array
from assay.runtime.axis_kernels import Reduction
from assay.runtime.dtypes import ANY, FLOATING, NUMERIC, REAL, DType
from assay.runtime.layout import normalize_axes, normalize_axis

Axes = int | tuple[int, ...] | None


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction over `axes`."""
    if keepdims:
        return tuple(1 if at in axes else extent for at, extent in enumerate(shape))
    return tuple(extent for at, extent in enumerate(shape) if at not in axes)


class ReductionShape(NamedTuple):
    """The reduced axes, the result's shape, and the elements per result."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    elements: int


def _hashable(axis: Axes) -> Axes:
    return tuple(axis) if isinstance(axis, list) else axis


@functools.lru_cache(maxsize=4096, typed=True)
def _reduction_shape(
    operation: str, shape: tuple[int, ...], axis: Axes, keepdims: bool
) -> ReductionShape:
    axes = normalize_axes(axis, len(shape), operation)
    elements = math.prod(shape[at] for at in axes)
    return ReductionShape(axes, reduced_shape(shape, axes, keepdims), elements)


def reduce(
    operation: str,
    loop: Callable[..., Any],
    x: Array,
    axis: Axes,
    keepdims: bool,
    dtype: DType,
    reduction: Reduction,
    computed: DType | None = None,
) -> Array:
    """Reduce an array along some axes.

    `loop` has the signature of a NumPy reduction; a kernel computes the `reduction` in the type `computed`, by
    default that of the result.
    """
    axes, shape, count = _reduction_shape(operation, x.layout.shape, _hashable(axis), keepdims)
    if axis_kernels.supports(x, dtype):
        return axis_kernels.reduce(
            operation, reduction, x, axes, shape, computed or dtype, dtype, count
        )
    flops = float(x.size) if x.dtype.kind in FLOATING else 0.0
    return numpy_kernels.compute(
        operation,
        lambda view, out: loop(view, axis=axes, out=out, keepdims=keepdims),
        [x],
        shape,
        dtype,
        flops=flops,
    )


def _accumulator_dtype(x: Array, dtype: DType | str | None, operation: str) -> DType:
    """The result type of a sum or product: small integers are promoted to the default ones."""
    if dtype is not None:
        return dtypes.as_dtype(dtype, operation)
    if x.dtype.kind == "int":
        return dtypes.int64
    return dtypes.uint64 if x.dtype.kind == "uint" else x.dtype


def _total(loop: Callable[..., Any], dtype: DType) -> Callable[..., None]:
    def run(view: Any, **options: Any) -> None:
        kind = np.dtype(np.float32) if dtype is dtypes.bfloat16 else dtype.storage
        loop(view.astype(kind, copy=False), dtype=kind, **options)

    return run


def sum(
    x: Array, /, *, axis: Axes = None, dtype: DType | str | None = None, keepdims: bool = False
) -> Array:
    """The sum; 0 for no elements."""
    dtypes.require_kind(x.dtype, NUMERIC, "sum")
    result_dtype = _accumulator_dtype(x, dtype, "sum")
    return reduce(
        "sum", _total(np.sum, result_dtype), x, axis, keepdims, result_dtype, axis_kernels.SUM
    )


def prod(
    x: Array, /, *, axis: Axes = None, dtype: DType | str | None = None, keepdims: bool = False
) -> Array:
    """The product; 1 for no elements."""
    dtypes.require_kind(x.dtype, NUMERIC, "prod")
    result_dtype = _accumulator_dtype(x, dtype, "prod")
    return reduce(
        "prod", _total(np.prod, result_dtype), x, axis, keepdims, result_dtype, axis_kernels.PRODUCT
    )


def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The maximum; NaN propagates."""
    dtypes.require_kind(x.dtype, REAL, "max")
    return reduce("max", np.max, x, axis, keepdims, x.dtype, axis_kernels.MAX)


def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The minimum; NaN propagates."""
    dtypes.require_kind(x.dtype, REAL, "min")
    return reduce("min", np.min, x, axis, keepdims, x.dtype, axis_kernels.MIN)


def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The arithmetic mean; NaN for no elements."""
    dtypes.require_kind(x.dtype, FLOATING, "mean")
    return reduce("mean", _without_warnings(np.mean), x, axis, keepdims, x.dtype, axis_kernels.MEAN)


def var(
    x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The variance, with the divisor N minus `correction`."""
    dtypes.require_kind(x.dtype, ("float",), "var")
    return _variance("var", np.var, x, axis, correction, keepdims, axis_kernels.VARIANCE)


def std(
    x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The standard deviation, from the variance with the same `correction`."""
    dtypes.require_kind(x.dtype, ("float",), "std")
    return _variance("std", np.std, x, axis, correction, keepdims, axis_kernels.STD)


def _variance(
    operation: str,
    loop: Callable[..., Any],
    x: Array,
    axis: Axes,
    correction: float,
    keepdims: bool,
    reduction: Reduction,
) -> Array:
    """The mean of squared deviations."""
    if not axis_kernels.supports(x):
        quiet = _without_warnings(loop, ddof=correction)
        return reduce(operation, quiet, x, axis, keepdims, x.dtype, reduction)
    axes, shape, count = _reduction_shape(operation, x.layout.shape, _hashable(axis), keepdims)
    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    divisor = builtins.max(count - correction, 0)
    return axis_kernels.reduce(operation, reduction, x, axes, shape, wide, x.dtype, divisor)


def _without_warnings(loop: Callable[..., Any], **fixed: Any) -> Callable[..., None]:
    """The loop without NumPy's warnings about too few elements, since the result is NaN anyway."""
    import warnings

    def run(view: Any, **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            loop(view, **options, **fixed)

    return run


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements are nonzero."""
    dtypes.require_kind(x.dtype, ANY, "all")
    return reduce("all", np.all, x, axis, keepdims, dtypes.bool_, axis_kernels.ALL)


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element is nonzero."""
    dtypes.require_kind(x.dtype, ANY, "any")
    return reduce("any", np.any, x, axis, keepdims, dtypes.bool_, axis_kernels.ANY)


def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The number of nonzero elements."""

    def loop(view: Any, *, axis: Any, out: Any, keepdims: bool) -> None:
        np.copyto(out, np.count_nonzero(view, axis=axis, keepdims=keepdims))

    return reduce("count_nonzero", loop, x, axis, keepdims, dtypes.int64, axis_kernels.COUNT)


def _cumulative(
    operation: str,
    loop: Callable[..., Any],
    x: Array,
    axis: int | None,
    dtype: DType | str | None,
    first: int | None,
    combine: str,
) -> Array:
    dtypes.require_kind(x.dtype, NUMERIC, operation)
    if x.ndim == 0:
        raise ShapeError(f"{operation}: expected at least 1 axis, got a 0-d array")
    if axis is None and x.ndim > 1:
        raise ShapeError(f"{operation}: expected an axis for shape {x.shape}, got none")
    dim = normalize_axis(0 if axis is None else axis, x.ndim, operation)
    result_dtype = _accumulator_dtype(x, dtype, operation)
    kind = np.dtype(np.float32) if result_dtype is dtypes.bfloat16 else result_dtype.storage
    lead = 0 if first is None else 1
    shape = tuple(extent + lead if at == dim else extent for at, extent in enumerate(x.shape))

    part = tuple(slice(lead, None) if at == dim else slice(None) for at in range(x.ndim))
    before = tuple(slice(0, lead) if at == dim else slice(None) for at in range(x.ndim))
    if axis_kernels.supports(x, result_dtype):
        scanned = axis_kernels.scan(operation, combine, x, dim, result_dtype)
        if not lead:
            return scanned
        result = allocation.empty(x.device, shape, result_dtype, operation)
        elementwise_kernels.fill(operation, result[before], first)
        transfer.copy_into(result[part], scanned, operation)
        return result

    def kernel(view: Any, out: Any) -> None:
        if lead:
            out[before] = first
        loop(view.astype(kind, copy=False), axis=dim, out=out[part], dtype=kind)

    return numpy_kernels.compute(operation, kernel, [x], shape, result_dtype)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | str | None = None,
    include_initial: bool = False,
) -> Array:
    """The cumulative sum along an axis; `include_initial` prepends 0."""
    first = 0 if include_initial else None
    return _cumulative("cumulative_sum", np.cumsum, x, axis, dtype, first, "add")


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | str | None = None,
    include_initial: bool = False,
) -> Array:
    """The cumulative product along an axis; `include_initial` prepends 1."""
    first = 1 if include_initial else None
    return _cumulative("cumulative_prod", np.cumprod, x, axis, dtype, first, "multiply")


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """The n-th discrete difference along an axis."""
    from assay.xp.binary import not_equal, subtract
    from assay.xp.manipulation import concat

    if n < 0:
        raise ShapeError(f"diff: expected n of at least 0, got {n}")
    dim = normalize_axis(axis, x.ndim, "diff")
    parts = [part for part in (prepend, x, append) if part is not None]
    differences = concat(parts, axis=dim) if len(parts) > 1 else x
    step = not_equal if differences.dtype is dtypes.bool_ else subtract
    for _ in range(n):
        later = tuple(slice(1, None) if at == dim else slice(None) for at in range(x.ndim))
        sooner = tuple(slice(None, -1) if at == dim else slice(None) for at in range(x.ndim))
        differences = step(differences[later], differences[sooner])
    return differences
