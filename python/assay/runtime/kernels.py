"""Elementwise work as kernels of a device that has them: views and numbers in, one launch out."""

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
from assay.runtime.layout import LARGEST, Shape, broadcast_shapes, fresh
from assay.runtime.rules import BINARY, UNARY, Elementwise, result_type

MOST_AXES: Final = 8
"""What a kernel goes along; arrays of more axes are left to NumPy."""

COPY: Final = "a0"
"""The expression of elements that are moved and not understood: any type will do."""

CAST: Final = "positive(a0)"

Input = Array | np.generic | np.ndarray[Any, Any]
"""An array, or a number in the type that it is computed in."""

_number = functools.cache(expression)


def serve(device: Device, ndim: int, dtypes: Sequence[DType]) -> bool:
    """Whether kernels take work on these types along so many axes."""
    if not device.has_array_kernels or ndim > MOST_AXES:
        return False
    # A loop: what small operations ask has to be answered at once.
    for dtype in dtypes:  # noqa: SIM110
        if dtype.kind == "complex":
            return False
    return True


def bits(value: Any, computed: DType) -> int:
    """A plain number as kernels are told it."""
    if computed.kind == "float":
        found: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
        return found
    whole = int(bool(value)) if computed.kind == "bool" else int(value)
    return whole - (1 << 64) if whole >= 1 << 63 else whole


def write(
    label: str,
    text: str,
    computed: DType,
    inputs: Sequence[Input],
    out: Array,
    flops: float = 0.0,
) -> None:
    """Put an expression of the inputs, stretched to its shape, into an array."""
    if out.size == 0:
        return
    given = tuple(one if isinstance(one, Array) else bits(one, computed) for one in inputs)
    device = out.device
    device._context.elementwise(
        label,
        _number(text),
        computed.element,
        given,
        out,
        device.current_stream()._native,
        flops,
    )


def compute(
    label: str,
    text: str,
    computed: DType,
    inputs: Sequence[Input],
    device: Device,
    shape: Shape,
    dtype: DType,
    flops: float = 0.0,
) -> Array:
    """A fresh array of an expression of the inputs, stretched to this shape."""
    layout, nbytes, _ = fresh(shape, dtype.itemsize)
    _check_size(label, shape, nbytes)
    out = Array(device, device.allocate(nbytes), dtype, layout)
    write(label, text, computed, inputs, out, flops)
    return out


def _check_size(label: str, shape: Shape, nbytes: int) -> None:
    if nbytes > LARGEST:
        raise ShapeError(f"{label}: expected at most 2**62 bytes, got shape {shape}")


class Plan(NamedTuple):
    """What an operation on operands of certain types comes to."""

    text: str
    computed: DType
    result: DType
    native: NativePlan
    """Does it on arrays of one shape without gaps in one call."""


def plan(name: str, rule: Elementwise, common: DType) -> Plan | None:
    """How a kernel does an operation in this type, or None where there is none."""
    narrow = common in (float16, bfloat16)
    if common.kind == "complex" or not rule.expression or (name == "nextafter" and narrow):
        return None
    result = result_type(rule.gives, common)
    floating = common.kind == "float"
    native = NativePlan(name, _number(rule.expression), common.element, result, floating, Array)
    return Plan(rule.expression, common, result, native)


@functools.cache
def _unary_plan(name: str, dtype: DType) -> Plan | None:
    rule = UNARY[name]
    require_kind(dtype, rule.kinds, name)
    return plan(name, rule, dtype)


@functools.cache
def _binary_plan(name: str, first: DType, second: DType) -> Plan | None:
    rule = BINARY[name]
    common = promote(first, second, name)
    require_kind(common, rule.kinds, name)
    if rule.loop is np.power and common.kind in ("int", "uint"):
        # Exponents have to be looked at first.
        return None
    return plan(name, rule, common)


def _scalar_plan(name: str, dtype: DType, scalar: Any) -> Plan | None:
    try:
        # Which number it is has no say in the type.
        common = scalar_dtype(type(scalar)(), dtype, name)
    except DTypeError:
        # Whoever looks at the number itself says why it does not fit.
        return None
    if common is not dtype:
        return None
    return _binary_plan(name, dtype, dtype)


def native_plan(name: str, first: Any, second: Any) -> NativePlan | None:
    """What arrays, or an array and a number, go to as they are; None where there is no such thing.

    Without a second operand it is an operation of one.
    """
    if second is None:
        found = _unary_plan(name, first.dtype)
    elif isinstance(first, Array) and isinstance(second, Array):
        found = _binary_plan(name, first.dtype, second.dtype)
    elif isinstance(first, Array):
        found = _scalar_plan(name, first.dtype, second)
    else:
        found = _scalar_plan(name, second.dtype, first)
    return found and found.native


def unary(name: str, x: Array, device: Device) -> Array | None:
    """An operation of one operand, or None where a loop of NumPy has to do it."""
    found = _unary_plan(name, x.dtype)
    return found and _made(name, found, (x,), device, x.shape)


def binary(name: str, first: Array, second: Array, device: Device) -> Array | None:
    """An operation of two arrays of one device, or None where a loop of NumPy has to do it."""
    found = _binary_plan(name, first.dtype, second.dtype)
    if found is None:
        return None
    shape = broadcast_shapes(name, first.shape, second.shape)
    return _made(name, found, (first, second), device, shape)


def _made(
    name: str, found: Plan, inputs: tuple[Array, ...], device: Device, shape: Shape
) -> Array | None:
    if len(shape) > MOST_AXES:
        return None
    flops = float(math.prod(shape)) if found.computed.kind == "float" else 0.0
    return compute(name, found.text, found.computed, inputs, device, shape, found.result, flops)


def apart(label: str, source: Array, out: Array) -> Array:
    """The array, or a copy of it where writing `out` would change what is yet to be read."""
    if source.buffer is not out.buffer or source.layout == out.layout:
        return source
    return compute(label, COPY, source.dtype, [source], source.device, source.shape, source.dtype)


def owned(label: str, array: Array) -> Array:
    """The array, or a copy of it in memory of the pool where it is borrowed."""
    if array.buffer.pooled or array.size == 0:
        return array
    return compute(label, COPY, array.dtype, [array], array.device, array.shape, array.dtype)


def copy_into(label: str, out: Array, source: Array) -> bool:
    """Write an array, stretched and converted, into another; false where NumPy has to do it."""
    if not out.device.has_array_kernels or max(out.ndim, source.ndim) > MOST_AXES:
        return False
    if source.dtype is not out.dtype and "complex" in (source.dtype.kind, out.dtype.kind):
        return False
    text = COPY if source.dtype is out.dtype else CAST
    write(label, text, source.dtype, [apart(label, source, out)], out)
    return True


def fill(label: str, out: Array, value: Any) -> bool:
    """Write one number everywhere; false where NumPy has to do it."""
    if not serve(out.device, out.ndim, [out.dtype]):
        return False
    write(label, CAST, _exact(out.dtype), [value], out)
    return True


def _exact(dtype: DType) -> DType:
    """What a number is told in before it is rounded to a type, once."""
    return float64 if dtype in (float16, bfloat16, float32) else dtype
