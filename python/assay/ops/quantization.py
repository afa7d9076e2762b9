"""Quantization to dense and block formats, and back."""

from __future__ import annotations

from collections.abc import Sequence

from assay._native import FORMATS
from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.formats import BLOCKS, DTYPES, STORED_BLOCKS
from assay.ops.operands import call, check, nbytes, operand, result
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array


def _block(operation: str, format: str) -> tuple[int, int]:
    known = [name for name in BLOCKS if operation != "quantize" or name not in STORED_BLOCKS]
    if format not in known:
        raise InputError(
            f'{operation}: expected a dense or a block format, got "{format}"',
            f"one of: {', '.join((*DTYPES, *known))}",
        )
    return BLOCKS[format]


def quantize(x: Array, format: str, *, label: str | None = None) -> Array:
    """`x` in another format: an array of its dtype, or blocks along the last axis as bytes."""
    check("quantize", "x", x, None)
    if format in DTYPES:
        out = allocation.empty(x.device, x.shape, DTYPES[format], "quantize")
        packed = operand("quantize", "out", out) if out.size else None
    else:
        values, size = _block("quantize", format)
        if x.ndim == 0 or x.shape[-1] % values:
            raise ShapeError(
                f"quantize: expected a last axis in multiples of {values} for {format}, "
                f"got shape {tuple(x.shape)}"
            )
        shape = (*x.shape[:-1], x.shape[-1] // values * size)
        out = allocation.empty(x.device, shape, dtypes.uint8, "quantize")
        packed = (out.buffer, out.offset, out.nbytes, FORMATS[format])
    call(
        "quantize", [x, packed], (x.size,), x.device, counting.memory_traffic(nbytes(x, out)), label
    )
    return out


def dequantize(x: Array, format: str, shape: Sequence[int], *, label: str | None = None) -> Array:
    """float32 values of `shape` from the result of `quantize`, or from blocks of a file."""
    out = result("dequantize", x.device, None, tuple(shape))
    if format in DTYPES:
        check("dequantize", "x", x, tuple(shape), (DTYPES[format],))
        packed = operand("dequantize", "x", x) if x.size else None
    else:
        values, size = _block("dequantize", format)
        check("dequantize", "x", x, None, (dtypes.uint8,))
        if out.size % values or x.size != out.size // values * size:
            raise ShapeError(
                f"dequantize: expected {out.size / values * size:g} bytes of {format} for shape "
                f"{tuple(shape)}, got {x.size}"
            )
        raw = operand("dequantize", "x", x) if x.size else None
        packed = None if raw is None else (*raw[:3], FORMATS[format])
    call(
        "dequantize",
        [packed, out],
        (out.size,),
        x.device,
        counting.memory_traffic(nbytes(x, out)),
        label,
    )
    return out
