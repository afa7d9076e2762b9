"""Block formats of GGUF that have no kernels: their values, computed when a model is loaded.

The layouts are those of ggml's `ggml-common.h`. Superblocks of 256 values have nested scales: a
scale and a minimum for each 16 or 32 values, as integers times two 16-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from assay._native import BLOCK_FORMATS
from assay.errors import UnsupportedError
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Values = npt.NDArray[np.float32]

_CHUNK_BLOCKS: Final = 1 << 16
"""Blocks that are computed at once: intermediate arrays stay small beside the result."""

IQ4_VALUES: Final = (*(-127, -104, -83, -65, -49, -35, -22, -10), *(1, 13, 25, 38, 53, 69, 89, 113))
"""The table of IQ4_NL and IQ4_XS."""

FP4_VALUES: Final = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the values of e2m1 floats."""


def dequantize(data: Any, format: str, shape: tuple[int, ...]) -> Values:
    """The values of a tensor whose bytes are these."""
    if format not in FORMATS:
        raise UnsupportedError(
            f"format: expected one of {', '.join(FORMATS)}, got {format}",
            "convert the model to one of these, or to one with kernels",
        )
    block = BLOCK_FORMATS[format]
    blocks = np.frombuffer(data, np.uint8).reshape(-1, block.bytes)
    out = np.empty((len(blocks), block.values), np.float32)
    # A scale that is NaN or infinite in the file is so in the values.
    with np.errstate(all="ignore"):
        for first in range(0, len(blocks), _CHUNK_BLOCKS):
            rows = slice(first, first + _CHUNK_BLOCKS)
            out[rows] = FORMATS[format](blocks[rows])
    return out.reshape(shape)


def _halves(blocks: Bytes, first: int, count: int = 1) -> Values:
    """16-bit floats that start at a byte of each block."""
    data = np.ascontiguousarray(blocks[:, first : first + 2 * count])
    return data.view("<f2").astype(np.float32)


def nibbles(codes: Bytes) -> Bytes:
    """The lower halves of bytes, then the upper halves."""
    return np.concatenate([codes & 15, codes >> 4], axis=-1)


def fifth_bits(blocks: Bytes, first: int) -> Bytes:
    """The 32 highest bits of 5-bit codes, in order, as 16 or 0."""
    bits = np.unpackbits(blocks[:, first : first + 4], axis=1, bitorder="little")
    return bits << np.uint8(4)


def _q5_0(blocks: Bytes) -> Values:
    codes = (nibbles(blocks[:, 6:]) | fifth_bits(blocks, 2)).astype(np.float32) - 16
    return _halves(blocks, 0) * codes


def _q5_1(blocks: Bytes) -> Values:
    codes = (nibbles(blocks[:, 8:]) | fifth_bits(blocks, 4)).astype(np.float32)
    return _halves(blocks, 0) * codes + _halves(blocks, 2)


def _pairs_of_bits(codes: Bytes) -> Bytes:
    """2-bit codes of 64 bytes as 16 groups of 16: each 32 bytes hold four groups of 32, by shift."""
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    spread = (codes.reshape(-1, 2, 1, 32) >> shifts) & np.uint8(3)
    return spread.reshape(-1, 16, 16)


def _q2_k(blocks: Bytes) -> Values:
    scales = blocks[:, :16]
    scale = _halves(blocks, 80) * (scales & 15).astype(np.float32)
    minimum = _halves(blocks, 82) * (scales >> 4).astype(np.float32)
    codes = _pairs_of_bits(blocks[:, 16:80]).astype(np.float32)
    return (scale[:, :, None] * codes - minimum[:, :, None]).reshape(len(blocks), 256)


def _q3_k(blocks: Bytes) -> Values:
    stored = blocks[:, 96:108]
    low = np.concatenate([stored[:, :8] & 15, stored[:, :8] >> 4], axis=1)
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, :, None]
    high = ((stored[:, None, 8:] >> shifts) & 3).reshape(-1, 16)
    scales = (low | high << 4).astype(np.float32) - 32
    # The highest bit of a code is in byte l % 32, bit l // 32; where it is unset, 4 is subtracted.
    planes = np.unpackbits(blocks[:, :32, None], axis=2, bitorder="little").transpose(0, 2, 1)
    high_bits = planes.reshape(-1, 16, 16)
    codes = _pairs_of_bits(blocks[:, 32:96]).astype(np.float32)
    codes -= (high_bits ^ 1).astype(np.float32) * 4
    scale = _halves(blocks, 108) * scales
    values: Values = scale[:, :, None] * codes
    return values.reshape(len(blocks), 256)


def _scales_and_minima(stored: Bytes) -> tuple[Values, Values]:
    """Eight 6-bit scales and minima of 12 bytes, as in Q4_K."""
    first, second, third = stored[:, :4], stored[:, 4:8], stored[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _q5_k(blocks: Bytes) -> Values:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    planes = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little").transpose(0, 2, 1)
    low = nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    codes = (low | planes << 4).astype(np.float32)
    scale = (_halves(blocks, 0) * scales)[:, :, None]
    minimum = (_halves(blocks, 2) * minima)[:, :, None]
    return (scale * codes - minimum).reshape(len(blocks), 256)


def _iq4_nl(blocks: Bytes) -> Values:
    table = np.array(IQ4_VALUES, np.float32)
    return _halves(blocks, 0) * table[nibbles(blocks[:, 2:])]


def _iq4_xs(blocks: Bytes) -> Values:
    table = np.array(IQ4_VALUES, np.float32)
    high_bits = np.ascontiguousarray(blocks[:, 2:4]).view("<u2")
    high = ((high_bits >> (2 * np.arange(8, dtype=np.uint16))) & 3).astype(np.uint8)
    low = blocks[:, 4:8, None] >> np.array([0, 4], np.uint8) & 15
    scales = (low.reshape(-1, 8) | high << 4).astype(np.float32) - 32
    codes = nibbles(blocks[:, 8:].reshape(-1, 8, 16))
    scale = _halves(blocks, 0) * scales
    return (scale[:, :, None] * table[codes]).reshape(len(blocks), 256)


def _mxfp4(blocks: Bytes) -> Values:
    table = np.array(FP4_VALUES, np.float32)
    # The table holds twice the values, so that the exponent is one less.
    scale = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)
    return scale.astype(np.float32) * table[nibbles(blocks[:, 1:])]


FORMATS: Final[dict[str, Callable[[Bytes], Values]]] = {
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q5_k": _q5_k,
    "iq4_nl": _iq4_nl,
    "iq4_xs": _iq4_xs,
    "mxfp4": _mxfp4,
}
"""What computes the values of each format."""
