"""Block formats whose values are small integers times a 16-bit scale, as Q8_0: the same values.

Q5_0, Q4_0 and IQ4_NL have blocks of 32 values and one scale, like Q8_0. Their integers fit 8 bits,
so that a matrix without kernels of its own, or fused from parts of several of these formats, has
the kernels of Q8_0 and loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from assay._native import BLOCK_FORMATS
from assay.engine.loading.dequantize import IQ4_VALUES, fifth_bits, nibbles
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Integers = npt.NDArray[np.int8]

FORMAT: Final = "q8_0"


def as_q8_0(data: Any, format: str) -> Bytes:
    """The blocks of a tensor as blocks of Q8_0, with equal values."""
    stored = np.frombuffer(data, np.uint8)
    if format == FORMAT:
        return stored
    blocks = stored.reshape(-1, BLOCK_FORMATS[format].bytes)
    out = np.empty((len(blocks), BLOCK_FORMATS[FORMAT].bytes), np.uint8)
    # The scale is the first two bytes in all of them.
    out[:, :2] = blocks[:, :2]
    out[:, 2:] = _INTEGERS[format](blocks).view(np.uint8)
    return out.reshape(-1)


def _q4_0(blocks: Bytes) -> Integers:
    return nibbles(blocks[:, 2:]).view(np.int8) - np.int8(8)


def _q5_0(blocks: Bytes) -> Integers:
    codes: Integers = (nibbles(blocks[:, 6:]) | fifth_bits(blocks, 2)).view(np.int8)
    return codes - np.int8(16)


def _iq4_nl(blocks: Bytes) -> Integers:
    return np.array(IQ4_VALUES, np.int8)[nibbles(blocks[:, 2:])]


_INTEGERS: Final[dict[str, Callable[[Bytes], Integers]]] = {
    "q4_0": _q4_0,
    "q5_0": _q5_0,
    "iq4_nl": _iq4_nl,
}

FORMATS: Final = (FORMAT, *_INTEGERS)
"""Formats whose values Q8_0 has exactly."""
