"""Work along an axis as kernels of a device that has them: joins, running joins, order, choice."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from assay._native import Buffer, NativeReduction, expression
from assay.runtime import exchange, kernels, launching
from assay.runtime.array import Array
from assay.runtime.dtypes import DType, int64
from assay.runtime.hardware import Device
from assay.runtime.layout import Shape, fresh, permute

_Operand = tuple[Buffer, int, int, int]

_number = functools.cache(expression)


class Reduction(NamedTuple):
    """How elements are joined, what is done to each before, and to what comes out."""

    join: str
    first: str = "a0"
    """An expression of a0, and of the mean a1 where it is centered."""
    last: str = "a0"
    """An expression of a0 and the number a1."""
    centered: bool = False
    """Whether the mean of all elements is found first; for sums."""


SUM: Final = Reduction("add")
PRODUCT: Final = Reduction("multiply")
LARGEST: Final = Reduction("maximum")
SMALLEST: Final = Reduction("minimum")
ALL: Final = Reduction("logical_and")
ANY: Final = Reduction("logical_or")
COUNT: Final = Reduction("add", first="nonzero(a0)")
MEAN: Final = Reduction("add", last="divide(a0,a1)")
VARIANCE: Final = Reduction("add", "square(subtract(a0,a1))", "divide(a0,a1)", True)
DEVIATION: Final = Reduction("add", "square(subtract(a0,a1))", "sqrt_(divide(a0,a1))", True)


def serve(x: Array, *others: DType) -> bool:
    """Whether kernels take an array and results of these types; nothing needs no kernel."""
    shape = x.layout.shape
    return 0 not in shape and kernels.serve(x.device, len(shape), [x.dtype, *others])


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
    out.device._context.operate(
        name,
        operands,
        numbers,
        out.device.current_stream()._native,
        label=label,
        bytes=sum(operand[2] for operand in operands if operand is not None),
        flops=flops,
    )


def packed(x: Array, label: str) -> Array:
    """The array, or a copy of it in C order without gaps."""
    return x if x.layout.is_contiguous(x.dtype.itemsize) else exchange.copy(x, label)


def _in_order(x: Array, axes: Shape, label: str) -> tuple[Array, Shape]:
    """Elements in C order, and the axes as neighbors in it."""
    together = len(axes) < 2 or max(axes) - min(axes) + 1 == len(axes)
    if together and x.layout.is_contiguous(x.dtype.itemsize):
        return x, axes
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    turned = packed(x.view(permute(x.layout, kept + tuple(sorted(axes)))), label)
    return turned, tuple(range(len(kept), x.ndim))


@functools.lru_cache(maxsize=4096)
def _parts(shape: Shape, axes: Shape) -> tuple[int, int, int]:
    """What is outside, along and inside of axes that are neighbors."""
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
    number: float,
) -> tuple[NativeReduction, tuple[int | float, ...]]:
    """A reduction of arrays of one shape and type, and the numbers that it is told."""
    kind, computed, dtype = types
    layout, nbytes, _ = fresh(shape, dtype.itemsize)
    size = math.prod(source)
    flops = float(size) if kind.kind == "float" else 0.0
    numbers = (
        _number(reduction.first),
        _number(reduction.join),
        _number(reduction.last),
        float(number),
        int(reduction.centered),
        computed.element,
        *_parts(source, axes),
    )
    read = size * kind.itemsize
    return NativeReduction(label, numbers, read, layout, nbytes, dtype, flops, Array), numbers


def reduce(
    label: str,
    reduction: Reduction,
    x: Array,
    axes: Shape,
    shape: Shape,
    computed: DType,
    dtype: DType,
    number: float = 0.0,
    out: Array | None = None,
) -> Array:
    """One figure for all elements along some axes, in fresh memory or in `out`."""
    kind = x.dtype
    source, axes = _in_order(x, axes, label)
    types = (kind, computed, dtype)
    plan, numbers = _plan(label, reduction, source.layout.shape, axes, shape, types, number)
    if out is None:
        made: Array | None = plan.apply(source)
        if made is not None:
            return made
        out = launching.empty(x.device, shape, dtype, label)
    flops = float(x.size) if kind.kind == "float" else 0.0
    _operate("reduce", [_operand(source), _operand(out)], numbers, out, label, flops)
    return out


def argreduce(label: str, x: Array, axes: Shape, shape: Shape, largest: bool) -> Array:
    """The place, along some axes, of the first largest or smallest element."""
    out = launching.empty(x.device, shape, int64, label)
    source, axes = _in_order(x, axes, label)
    numbers = (int(largest), *_parts(source.layout.shape, axes))
    _operate("argreduce", [_operand(source), _operand(out)], numbers, out, label)
    return out


def _last(x: Array, axis: int, label: str) -> Array:
    """Elements in C order with an axis moved to the end."""
    order = tuple(at for at in range(x.ndim) if at != axis)
    return packed(x.view(permute(x.layout, (*order, axis))), label)


def _back(moved: Array, axis: int, label: str) -> Array:
    """The last axis where it was, in C order."""
    order = list(range(moved.ndim - 1))
    order.insert(axis, moved.ndim - 1)
    return packed(moved.view(permute(moved.layout, tuple(order))), label)


def scan(label: str, join: str, x: Array, axis: int, dtype: DType) -> Array:
    """Joins of all elements up to each."""
    source = _last(x, axis, label)
    out = launching.empty(x.device, source.shape, dtype, label)
    length = x.shape[axis]
    numbers = (_number(join), dtype.element, x.size // length, length)
    flops = float(x.size) if x.dtype.kind == "float" else 0.0
    _operate("scan", [_operand(source), _operand(out)], numbers, out, label, flops)
    return _back(out, axis, label)


def sort(label: str, x: Array, axis: int, descending: bool, places: bool) -> Array:
    """The elements in order along an axis, or the places they came from."""
    source = _last(x, axis, label)
    out = launching.empty(x.device, source.shape, int64 if places else x.dtype, label)
    length = x.shape[axis]
    operands = [_operand(source), None, _operand(out)]
    if not places:
        operands = [operands[0], operands[2], None]
    _operate("sort", operands, (x.size // length, length, int(descending)), out, label)
    return _back(out, axis, label)


def in_order(label: str, x: Array, *, places: bool) -> list[Array]:
    """The elements of one axis in order, and after them the places they came from if wanted."""
    types = (x.dtype, int64) if places else (x.dtype,)
    made = [launching.empty(x.device, x.shape, dtype, label) for dtype in types]
    operands = [_operand(one) for one in (packed(x, label), *made)]
    _operate("sort", [*operands, None][:3], (1, x.size, 0), made[0], label)
    return made


def take(label: str, x: Array, indices: Array, axis: int) -> Array:
    """The parts along an axis that the indices name, which are within bounds."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    out = launching.empty(x.device, shape, x.dtype, label)
    if out.size:
        numbers = (math.prod(x.shape[:axis]), x.shape[axis], indices.size)
        inner = math.prod(x.shape[axis + 1 :])
        _take(label, packed(x, label), indices, out, (*numbers, inner, 0))
    return out


def take_along_axis(label: str, x: Array, indices: Array, axis: int) -> Array:
    """The elements along an axis that the indices, of the same extents otherwise, name."""
    out = launching.empty(x.device, indices.shape, x.dtype, label)
    if out.size:
        numbers = (math.prod(x.shape[:axis]), x.shape[axis], indices.shape[axis])
        inner = math.prod(x.shape[axis + 1 :])
        _take(label, packed(x, label), indices, out, (*numbers, inner, 1))
    return out


def _take(label: str, x: Array, indices: Array, out: Array, numbers: tuple[int, ...]) -> None:
    _operate(
        "gather",
        [_operand(x), _operand(_int64(indices, label)), _operand(out)],
        numbers,
        out,
        label,
    )


def _int64(indices: Array, label: str) -> Array:
    return packed(
        indices if indices.dtype is int64 else exchange.astype(indices, int64, label), label
    )


def put(
    label: str, x: Array, indices: Array, out: Array, axis: int, *, distinct: bool = False
) -> None:
    """Write parts to where the indices, which are within bounds, name along an axis of `out`.

    The last of several for one place is what is there afterward; `distinct` says there are none.
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
    operands = [_operand(packed(x, label)), _operand(_int64(indices, label)), _operand(out)]
    _operate("scatter", operands, numbers, out, label)


TALLIED: Final = 4096
"""Flags that are counted together."""


def places(label: str, flags: Array) -> Array:
    """The places, in C order, of the flags that are true; the host waits for their number."""
    count = flags.size
    if count == 0:
        return launching.empty(flags.device, (0,), int64, label)
    flags = packed(flags, label)
    ends = launching.empty(flags.device, (-(-count // TALLIED),), int64, label)
    _operate("flag_counts", [_operand(flags), _operand(ends)], (count,), ends, label)
    chosen = int(ends[-1])
    out = launching.empty(flags.device, (chosen,), int64, label)
    if chosen:
        operands = [_operand(flags), _operand(ends), _operand(out)]
        _operate("compact", operands, (count, chosen), out, label)
    return out


def search(label: str, ordered: Array, x: Array, right: bool, order: Array | None = None) -> Array:
    """How many of some sorted elements come before each of `x`, of the same type."""
    if ordered.size == 0:
        return launching.zeros(x.device, x.shape, int64, label)
    out = launching.empty(x.device, x.shape, int64, label)
    if x.size:
        places = None if order is None else _operand(_int64(order, label))
        operands = [_operand(packed(ordered, label)), places, _operand(packed(x, label))]
        numbers = (ordered.size, x.size, int(right))
        _operate("searchsorted", [*operands, _operand(out)], numbers, out, label)
    return out


def counting(label: str, device: Device, count: int) -> Array:
    """The numbers from 0 on."""
    ends = [np.int64(0), np.int64(1)]
    return kernels.compute(label, "ramp(index,a0,a1)", int64, ends, device, (count,), int64)


def extremes(label: str, x: Array) -> tuple[int, int]:
    """The smallest and the largest of some integers, which the host waits for."""
    both = launching.empty(x.device, (2,), x.dtype, label)
    axes = tuple(range(x.ndim))
    for place, reduction in enumerate((SMALLEST, LARGEST)):
        reduce(label, reduction, x, axes, (), x.dtype, x.dtype, out=both[place])
    lowest, highest = exchange.values(both).tolist()
    return lowest, highest
