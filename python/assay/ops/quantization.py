"""Numbers to narrower formats and back."""

from __future__ import annotations

from collections.abc import Sequence

from assay._native import FORMATS
from assay.errors import InputError, ShapeError
from assay.ops import counting
from assay.ops.calling import call, check, nbytes, operand, result
from assay.ops.weights import BLOCKS
from assay.runtime import dtypes, launching
from assay.runtime.array import Array

_NARROW = {"f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16}


def _block(operation: str, format: str) -> tuple[int, int]:
    if format not in BLOCKS:
        raise InputError(
            f'{operation}: expected a dense or a block format, got "{format}"',
            f"one of: {', '.join((*_NARROW, *BLOCKS))}",
        )
    return BLOCKS[format]


def quantize(x: Array, format: str, *, label: str | None = None) -> Array:
    """`x` in another format: an array of its type, or blocks along the last axis as bytes."""
    check("quantize", "x", x, x.shape)
    if format in _NARROW:
        out = launching.empty(x.device, x.shape, _NARROW[format], "quantize")
        given = operand("quantize", "out", out) if out.size else None
    else:
        values, size = _block("quantize", format)
        if x.ndim == 0 or x.shape[-1] % values:
            raise ShapeError(
                f"quantize: expected a last axis in multiples of {values} for {format}, "
                f"got shape {tuple(x.shape)}"
            )
        shape = (*x.shape[:-1], x.shape[-1] // values * size)
        out = launching.empty(x.device, shape, dtypes.uint8, "quantize")
        given = (out.buffer, out.offset, out.nbytes, FORMATS[format])
    call(
        "quantize",
        [("x", x), ("out", given)],
        (x.size,),
        x.device,
        counting.moved(nbytes(x, out)),
        label,
    )
    return out


def dequantize(x: Array, format: str, shape: Sequence[int], *, label: str | None = None) -> Array:
    """Numbers of `shape` from an array that `quantize` made, or from blocks out of a file."""
    out = result("dequantize", x.device, None, tuple(shape))
    if format in _NARROW:
        check("dequantize", "x", x, tuple(shape), (_NARROW[format],))
        given = operand("dequantize", "x", x) if x.size else None
    else:
        values, size = _block("dequantize", format)
        check("dequantize", "x", x, x.shape, (dtypes.uint8,))
        if out.size % values or x.size != out.size // values * size:
            raise ShapeError(
                f"dequantize: expected {out.size / values * size:g} bytes of {format} for shape "
                f"{tuple(shape)}, got {x.size}"
            )
        plain = operand("dequantize", "x", x) if x.size else None
        given = None if plain is None else (*plain[:3], FORMATS[format])
    call(
        "dequantize",
        [("x", given), ("out", out)],
        (out.size,),
        x.device,
        counting.moved(nbytes(x, out)),
        label,
    )
    return out
