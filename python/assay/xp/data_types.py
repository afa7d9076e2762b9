"""Element types: their limits, and how they join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.errors import DTypeError
from assay.runtime import dtypes, transfer
from assay.runtime.array import Array, Scalar
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, device as find_device


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """What `finfo` tells of a floating type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """What `iinfo` tells of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def astype(
    x: Array, dtype: DType | str, /, *, copy: bool = True, device: Device | str | None = None
) -> Array:
    """The values converted to another type; with `copy=False` the array itself where it fits."""
    target_dtype = dtypes.as_dtype(dtype, "astype")
    moved = x if device is None else transfer.to_device(x, find_device(device))
    if target_dtype is x.dtype:
        return transfer.copy(moved, "astype") if copy and moved is x else moved
    return transfer.astype(moved, target_dtype)


def can_cast(from_: DType | Array, to: DType, /) -> bool:
    """Whether every value of one type has its place in another."""
    given = from_.dtype if isinstance(from_, Array) else dtypes.as_dtype(from_, "can_cast")
    wanted = dtypes.as_dtype(to, "can_cast")
    try:
        return dtypes.promote(given, wanted, "can_cast") is wanted
    except DTypeError:
        return False


def finfo(type: DType | Array, /) -> FloatLimits:
    """The limits of a floating type, or of the parts of a complex one."""
    dtype = type.dtype if isinstance(type, Array) else dtypes.as_dtype(type, "finfo")
    dtypes.require_kind(dtype, dtypes.FLOATING, "finfo")
    if dtype is dtypes.bfloat16:
        largest = float.fromhex("0x1.fep127")
        return FloatLimits(16, 2.0**-7, largest, -largest, 2.0**-126, dtype)
    part = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)
    limits = np.finfo(part.storage)
    return FloatLimits(
        bits=8 * part.itemsize,
        eps=float(limits.eps),
        max=float(limits.max),
        min=float(limits.min),
        smallest_normal=float(limits.smallest_normal),
        dtype=part,
    )


def iinfo(type: DType | Array, /) -> IntegerLimits:
    """The limits of an integer type."""
    dtype = type.dtype if isinstance(type, Array) else dtypes.as_dtype(type, "iinfo")
    dtypes.require_kind(dtype, dtypes.INTEGRAL, "iinfo")
    limits = np.iinfo(dtype.storage)
    return IntegerLimits(8 * dtype.itemsize, int(limits.max), int(limits.min), dtype)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether a type is of a kind, or one of several."""
    wanted = kind if isinstance(kind, tuple) else (kind,)
    return any(_is_kind(dtype, one) for one in wanted)


def _is_kind(dtype: DType, kind: DType | str) -> bool:
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in dtypes.KINDS:
        raise DTypeError(
            f"isdtype: expected a kind, got {kind!r}", f"one of: {', '.join(dtypes.KINDS)}"
        )
    return dtype.kind in dtypes.KINDS[kind]


def result_type(*arrays_and_dtypes: Array | Scalar | DType) -> DType:
    """The type that an operation on all of these gives."""
    scalars = [
        operand for operand in arrays_and_dtypes if isinstance(operand, (bool, int, float, complex))
    ]
    promoted: DType | None = None
    for operand in arrays_and_dtypes:
        if isinstance(operand, (bool, int, float, complex)):
            continue
        dtype = (
            operand.dtype if isinstance(operand, Array) else dtypes.as_dtype(operand, "result_type")
        )
        promoted = dtype if promoted is None else dtypes.promote(promoted, dtype, "result_type")
    if promoted is None:
        raise DTypeError("result_type: expected an array or a type, got none")
    for scalar in scalars:
        promoted = dtypes.scalar_dtype(scalar, promoted, "result_type")
    return promoted
