"""Kernels along an axis: reductions, argmin/argmax, scans, sorts, gather, scatter, compaction."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from assay._native import Buffer, NativeReduction, expression
from assay.runtime import allocation, elementwise_kernels, transfer
from assay.runtime.array import Array
from assay.runtime.dtypes import DType, int64
from assay.runtime.hardware import Device
from assay.runtime.layout import Shape, contiguous_layout, permute

_Operand = tuple[Buffer, int, int, int]

_expression_id = functools.cache(expression)


class Reduction(NamedTuple):
    """A transform-reduce: the reduction operator, and expressions before and after it."""

    combine: str
    """The reduction operator."""
    transform: str = "a0"
    """An expression of the element a0, and of the mean a1 where it is centered."""
    epilogue: str = "a0"
    """An expression of the reduced value a0 and of a scalar a1."""
    centered: bool = False
    """Whether the mean is computed first; for sums only."""


SUM: Final = Reduction("add")
PRODUCT: Final = Reduction("multiply")
MAX: Final = Reduction("maximum")
MIN: Final = Reduction("minimum")
ALL: Final = Reduction("logical_and")
ANY: Final = Reduction("logical_or")
COUNT: Final = Reduction("add", transform="nonzero(a0)")
MEAN: Final = Reduction("add", epilogue="divide(a0,a1)")
VARIANCE: Final = Reduction("add", "square(subtract(a0,a1))", "divide(a0,a1)", True)
STD: Final = Reduction("add", "square(subtract(a0,a1))", "sqrt_(divide(a0,a1))", True)


def supports(x: Array, *others: DType) -> bool:
    """Whether kernels support an array and results of these dtypes; false for empty arrays."""
    shape = x.layout.shape
    return 0 not in shape and elementwise_kernels.supports(x.device, len(shape), [x.dtype, *others])


def _operand(array: Array) -> _Operand:
    layout, dtype = array.layout, array.dtype
    return (array.buffer, layout.offset, math.prod(layout.shape) * dtype.itemsize, dtype.element)


def _operate(
    name: str,
    operands: Sequence[_Operand | None],
    numbers: tuple[int | float, ...],
    out: Array,
    label: str,
    flops: float = 0.0,
) -> None:
    out.device.operate(
        name,
        operands,
        numbers,
        label=label,
        bytes=sum(operand[2] for operand in operands if operand is not None),
        flops=flops,
    )


def contiguous(x: Array, label: str) -> Array:
    """The array, or a contiguous copy of it in C order."""
    return x if x.layout.is_contiguous(x.dtype.itemsize) else transfer.copy(x, label)


def _reduction_operand(x: Array, axes: Shape, label: str) -> tuple[Array, Shape]:
    """The elements contiguous in C order, and the reduced axes, which are adjacent in it."""
    adjacent = len(axes) < 2 or max(axes) - min(axes) + 1 == len(axes)
    if adjacent and x.layout.is_contiguous(x.dtype.itemsize):
        return x, axes
    outer = tuple(axis for axis in range(x.ndim) if axis not in axes)
    permuted = contiguous(x.view(permute(x.layout, outer + tuple(sorted(axes)))), label)
    return permuted, tuple(range(len(outer), x.ndim))


@functools.lru_cache(maxsize=4096)
def _outer_length_inner(shape: Shape, axes: Shape) -> tuple[int, int, int]:
    """Elements outside, along and inside of adjacent axes."""
    first, last = (min(axes), max(axes)) if axes else (len(shape), len(shape) - 1)
    outer, length = math.prod(shape[:first]), math.prod(shape[first : last + 1])
    return outer, length, math.prod(shape[last + 1 :])


@functools.lru_cache(maxsize=4096)
def _plan(
    label: str,
    reduction: Reduction,
    source: Shape,
    axes: Shape,
    shape: Shape,
    types: tuple[DType, DType, DType],
    scalar: float,
) -> tuple[NativeReduction, tuple[int | float, ...]]:
    """The native reduction of arrays of one shape and dtype, and its numbers."""
    source_dtype, compute_dtype, dtype = types
    layout, nbytes, _ = contiguous_layout(shape, dtype.itemsize)
    size = math.prod(source)
    flops = float(size) if source_dtype.kind == "float" else 0.0
    numbers = (
        _expression_id(reduction.transform),
        _expression_id(reduction.combine),
        _expression_id(reduction.epilogue),
        float(scalar),
        int(reduction.centered),
        compute_dtype.element,
        *_outer_length_inner(source, axes),
    )
    read = size * source_dtype.itemsize
    return NativeReduction(label, numbers, read, layout, nbytes, dtype, flops, Array), numbers


def reduce(
    label: str,
    reduction: Reduction,
    x: Array,
    axes: Shape,
    shape: Shape,
    compute_dtype: DType,
    dtype: DType,
    scalar: float = 0.0,
    out: Array | None = None,
) -> Array:
    """Reduce along some axes, into a new array or into `out`."""
    source_dtype = x.dtype
    source, axes = _reduction_operand(x, axes, label)
    types = (source_dtype, compute_dtype, dtype)
    plan, numbers = _plan(label, reduction, source.layout.shape, axes, shape, types, scalar)
    if out is None:
        result: Array | None = plan.apply(source)
        if result is not None:
            return result
        out = allocation.empty(x.device, shape, dtype, label)
    flops = float(x.size) if source_dtype.kind == "float" else 0.0
    _operate("reduce", [_operand(source), _operand(out)], numbers, out, label, flops)
    return out


def argreduce(label: str, x: Array, axes: Shape, shape: Shape, largest: bool) -> Array:
    """Argmax or argmin along some axes."""
    out = allocation.empty(x.device, shape, int64, label)
    source, axes = _reduction_operand(x, axes, label)
    numbers = (int(largest), *_outer_length_inner(source.layout.shape, axes))
    _operate("argreduce", [_operand(source), _operand(out)], numbers, out, label)
    return out


def _move_axis_last(x: Array, axis: int, label: str) -> Array:
    """The elements contiguous, with an axis moved to the end."""
    order = tuple(at for at in range(x.ndim) if at != axis)
    return contiguous(x.view(permute(x.layout, (*order, axis))), label)


def _move_axis_back(moved: Array, axis: int, label: str) -> Array:
    """The last axis moved back, contiguous."""
    order = list(range(moved.ndim - 1))
    order.insert(axis, moved.ndim - 1)
    return contiguous(moved.view(permute(moved.layout, tuple(order))), label)


def scan(label: str, combine: str, x: Array, axis: int, dtype: DType) -> Array:
    """The inclusive scan along an axis."""
    source = _move_axis_last(x, axis, label)
    out = allocation.empty(x.device, source.shape, dtype, label)
    length = x.shape[axis]
    numbers = (_expression_id(combine), dtype.element, x.size // length, length)
    flops = float(x.size) if x.dtype.kind == "float" else 0.0
    _operate("scan", [_operand(source), _operand(out)], numbers, out, label, flops)
    return _move_axis_back(out, axis, label)


def sort(label: str, x: Array, axis: int, descending: bool, indices: bool) -> Array:
    """The elements sorted along an axis, or the argsort indices."""
    source = _move_axis_last(x, axis, label)
    out = allocation.empty(x.device, source.shape, int64 if indices else x.dtype, label)
    length = x.shape[axis]
    operands = [_operand(source), None, _operand(out)]
    if not indices:
        operands = [operands[0], operands[2], None]
    _operate("sort", operands, (x.size // length, length, int(descending)), out, label)
    return _move_axis_back(out, axis, label)


def sort_flat(label: str, x: Array, *, indices: bool) -> list[Array]:
    """The sorted elements of a 1-d array, and its argsort indices if requested."""
    types = (x.dtype, int64) if indices else (x.dtype,)
    results = [allocation.empty(x.device, x.shape, dtype, label) for dtype in types]
    operands = [_operand(one) for one in (contiguous(x, label), *results)]
    _operate("sort", [*operands, None][:3], (1, x.size, 0), results[0], label)
    return results


def gather(label: str, x: Array, indices: Array, axis: int) -> Array:
    """The slices along an axis at these indices, which are within bounds."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    out = allocation.empty(x.device, shape, x.dtype, label)
    if out.size:
        numbers = (math.prod(x.shape[:axis]), x.shape[axis], indices.size)
        inner = math.prod(x.shape[axis + 1 :])
        _gather(label, contiguous(x, label), indices, out, (*numbers, inner, 0))
    return out


def take_along_axis(label: str, x: Array, indices: Array, axis: int) -> Array:
    """The elements along an axis at these indices, as `numpy.take_along_axis`."""
    out = allocation.empty(x.device, indices.shape, x.dtype, label)
    if out.size:
        numbers = (math.prod(x.shape[:axis]), x.shape[axis], indices.shape[axis])
        inner = math.prod(x.shape[axis + 1 :])
        _gather(label, contiguous(x, label), indices, out, (*numbers, inner, 1))
    return out


def _gather(label: str, x: Array, indices: Array, out: Array, numbers: tuple[int, ...]) -> None:
    _operate(
        "gather",
        [_operand(x), _operand(_int64(indices, label)), _operand(out)],
        numbers,
        out,
        label,
    )


def _int64(indices: Array, label: str) -> Array:
    return contiguous(
        indices if indices.dtype is int64 else transfer.astype(indices, int64, label), label
    )


def scatter(
    label: str, x: Array, indices: Array, out: Array, axis: int, *, distinct: bool = False
) -> None:
    """Write slices to these indices, which are within bounds, along an axis of `out`.

    The last of duplicate indices wins; `distinct` promises that there are none.
    """
    if x.size == 0:
        return
    numbers = (
        math.prod(out.shape[:axis]),
        out.shape[axis],
        indices.size,
        math.prod(out.shape[axis + 1 :]),
        int(distinct),
    )
    operands = [_operand(contiguous(x, label)), _operand(_int64(indices, label)), _operand(out)]
    _operate("scatter", operands, numbers, out, label)


FLAGS_PER_BLOCK: Final = 4096
"""Flags per block of `flag_counts`."""


def flatnonzero(label: str, flags: Array) -> Array:
    """The flat indices of true flags (stream compaction); the host waits for their number."""
    count = flags.size
    if count == 0:
        return allocation.empty(flags.device, (0,), int64, label)
    flags = contiguous(flags, label)
    prefix_counts = allocation.empty(flags.device, (-(-count // FLAGS_PER_BLOCK),), int64, label)
    _operate(
        "flag_counts", [_operand(flags), _operand(prefix_counts)], (count,), prefix_counts, label
    )
    selected = int(prefix_counts[-1])
    out = allocation.empty(flags.device, (selected,), int64, label)
    if selected:
        operands = [_operand(flags), _operand(prefix_counts), _operand(out)]
        _operate("compact", operands, (count, selected), out, label)
    return out


def searchsorted(
    label: str, ordered: Array, x: Array, right: bool, sorter: Array | None = None
) -> Array:
    """The insertion indices of `x` among sorted elements of the same dtype."""
    if ordered.size == 0:
        return allocation.zeros(x.device, x.shape, int64, label)
    out = allocation.empty(x.device, x.shape, int64, label)
    if x.size:
        indices = None if sorter is None else _operand(_int64(sorter, label))
        operands = [_operand(contiguous(ordered, label)), indices, _operand(contiguous(x, label))]
        numbers = (ordered.size, x.size, int(right))
        _operate("searchsorted", [*operands, _operand(out)], numbers, out, label)
    return out


def arange(label: str, device: Device, count: int) -> Array:
    """The integers from 0 to below `count`."""
    start_and_step = [np.int64(0), np.int64(1)]
    return elementwise_kernels.compute(
        label, "ramp(index,a0,a1)", int64, start_and_step, device, (count,), int64
    )


def min_max(label: str, x: Array) -> tuple[int, int]:
    """The minimum and maximum of some integers; the host waits for them."""
    both = allocation.empty(x.device, (2,), x.dtype, label)
    axes = tuple(range(x.ndim))
    for index, reduction in enumerate((MIN, MAX)):
        reduce(label, reduction, x, axes, (), x.dtype, x.dtype, out=both[index])
    lowest, highest = transfer.values(both).tolist()
    return lowest, highest
