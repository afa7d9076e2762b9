"""Elementwise kernels: one launch evaluates an expression over strided arrays and scalars."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from assay._native import NativePlan, expression
from assay.errors import DTypeError, ShapeError
from assay.runtime.array import Array
from assay.runtime.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    promote,
    require_kind,
    scalar_dtype,
)
from assay.runtime.hardware import Device
from assay.runtime.layout import MAX_BYTES, Shape, broadcast_shapes, contiguous_layout
from assay.runtime.ufuncs import BINARY, UNARY, Ufunc, result_dtype

MAX_NDIM: Final = 8
"""The most axes that kernels take; NumPy handles arrays with more."""

COPY: Final = "a0"
"""The expression that copies elements bit by bit: any dtype will do."""

CAST: Final = "positive(a0)"

Input = Array | np.generic | np.ndarray[Any, Any]
"""An array, or a scalar in the dtype of the computation."""

_expression_id = functools.cache(expression)


def supports(device: Device, ndim: int, dtypes: Sequence[DType]) -> bool:
    """Whether kernels support these dtypes and this many axes."""
    if not device.capabilities.has_array_kernels or ndim > MAX_NDIM:
        return False
    # A loop is faster than any(): this is on the path of small operations.
    for dtype in dtypes:  # noqa: SIM110
        if dtype.kind == "complex":
            return False
    return True


def scalar_bits(value: Any, compute_dtype: DType) -> int:
    """The bits of a scalar, as kernels receive it."""
    if compute_dtype.kind == "float":
        unpacked: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
        return unpacked
    whole = int(bool(value)) if compute_dtype.kind == "bool" else int(value)
    return whole - (1 << 64) if whole >= 1 << 63 else whole


def launch(
    label: str,
    text: str,
    compute_dtype: DType,
    inputs: Sequence[Input],
    out: Array,
    flops: float = 0.0,
) -> None:
    """Write an expression of the inputs, broadcast to its shape, to an array."""
    if out.size == 0:
        return
    operands = tuple(
        one if isinstance(one, Array) else scalar_bits(one, compute_dtype) for one in inputs
    )
    device = out.device
    device._context.elementwise(
        label,
        _expression_id(text),
        compute_dtype.element,
        operands,
        out,
        device.current_stream()._native,
        flops,
    )


def compute(
    label: str,
    text: str,
    compute_dtype: DType,
    inputs: Sequence[Input],
    device: Device,
    shape: Shape,
    dtype: DType,
    flops: float = 0.0,
) -> Array:
    """A contiguous array of an expression of the inputs, broadcast to this shape."""
    layout, nbytes, _ = contiguous_layout(shape, dtype.itemsize)
    _check_size(label, shape, nbytes)
    out = Array(device, device.allocate(nbytes), dtype, layout)
    launch(label, text, compute_dtype, inputs, out, flops)
    return out


def _check_size(label: str, shape: Shape, nbytes: int) -> None:
    if nbytes > MAX_BYTES:
        raise ShapeError(f"{label}: expected at most 2**62 bytes, got shape {shape}")


class Plan(NamedTuple):
    """How a kernel evaluates an operation over operands of certain dtypes."""

    text: str
    compute_dtype: DType
    result: DType
    native: NativePlan
    """Evaluates it over contiguous arrays of one shape in one native call."""


def plan(name: str, ufunc: Ufunc, common: DType) -> Plan | None:
    """The plan of an operation in this dtype, or None where it has no kernel."""
    is_half = common in (float16, bfloat16)
    if common.kind == "complex" or not ufunc.expression or (name == "nextafter" and is_half):
        return None
    result = result_dtype(ufunc.result, common)
    floating = common.kind == "float"
    native = NativePlan(
        name, _expression_id(ufunc.expression), common.element, result, floating, Array
    )
    return Plan(ufunc.expression, common, result, native)


@functools.cache
def _unary_plan(name: str, dtype: DType) -> Plan | None:
    ufunc = UNARY[name]
    require_kind(dtype, ufunc.kinds, name)
    return plan(name, ufunc, dtype)


@functools.cache
def _binary_plan(name: str, first: DType, second: DType) -> Plan | None:
    ufunc = BINARY[name]
    common = promote(first, second, name)
    require_kind(common, ufunc.kinds, name)
    if ufunc.loop is np.power and common.kind in ("int", "uint"):
        # Exponents must be checked first.
        return None
    return plan(name, ufunc, common)


def _scalar_plan(name: str, dtype: DType, scalar: Any) -> Plan | None:
    try:
        # Promotion depends on the scalar's type and not on its value.
        common = scalar_dtype(type(scalar)(), dtype, name)
    except DTypeError:
        # The NumPy path raises it again, with the value.
        return None
    if common is not dtype:
        return None
    return _binary_plan(name, dtype, dtype)


def native_plan(name: str, first: Any, second: Any) -> NativePlan | None:
    """The native plan for these operands as they are, or None where there is none.

    Without a second operand it is a unary operation.
    """
    if second is None:
        plan = _unary_plan(name, first.dtype)
    elif isinstance(first, Array) and isinstance(second, Array):
        plan = _binary_plan(name, first.dtype, second.dtype)
    elif isinstance(first, Array):
        plan = _scalar_plan(name, first.dtype, second)
    else:
        plan = _scalar_plan(name, second.dtype, first)
    return plan and plan.native


def unary(name: str, x: Array, device: Device) -> Array | None:
    """Apply a unary ufunc, or return None where NumPy has to."""
    plan = _unary_plan(name, x.dtype)
    return plan and _apply(name, plan, (x,), device, x.shape)


def binary(name: str, first: Array, second: Array, device: Device) -> Array | None:
    """Apply a binary ufunc to arrays of one device, or return None where NumPy has to."""
    plan = _binary_plan(name, first.dtype, second.dtype)
    if plan is None:
        return None
    shape = broadcast_shapes(name, first.shape, second.shape)
    return _apply(name, plan, (first, second), device, shape)


def _apply(
    name: str, found: Plan, inputs: tuple[Array, ...], device: Device, shape: Shape
) -> Array | None:
    if len(shape) > MAX_NDIM:
        return None
    flops = float(math.prod(shape)) if found.compute_dtype.kind == "float" else 0.0
    return compute(
        name, found.text, found.compute_dtype, inputs, device, shape, found.result, flops
    )


def without_overlap(label: str, source: Array, out: Array) -> Array:
    """The array, or a copy of it where writing `out` would overwrite elements yet to be read."""
    if source.buffer is not out.buffer or source.layout == out.layout:
        return source
    return compute(label, COPY, source.dtype, [source], source.device, source.shape, source.dtype)


def pooled(label: str, array: Array) -> Array:
    """The array, or a copy of it in pool memory where its memory is borrowed."""
    if array.buffer.pooled or array.size == 0:
        return array
    return compute(label, COPY, array.dtype, [array], array.device, array.shape, array.dtype)


def copy_into(label: str, out: Array, source: Array) -> bool:
    """Write an array, broadcast and converted, to another; false where NumPy has to."""
    if not out.device.capabilities.has_array_kernels or max(out.ndim, source.ndim) > MAX_NDIM:
        return False
    if source.dtype is not out.dtype and "complex" in (source.dtype.kind, out.dtype.kind):
        return False
    text = COPY if source.dtype is out.dtype else CAST
    launch(label, text, source.dtype, [without_overlap(label, source, out)], out)
    return True


def fill(label: str, out: Array, value: Any) -> bool:
    """Write one scalar to every element; false where NumPy has to."""
    if not supports(out.device, out.ndim, [out.dtype]):
        return False
    launch(label, CAST, _fill_dtype(out.dtype), [value], out)
    return True


def _fill_dtype(dtype: DType) -> DType:
    """The dtype in which a scalar is passed, so that it is rounded only once."""
    return float64 if dtype in (float16, bfloat16, float32) else dtype
