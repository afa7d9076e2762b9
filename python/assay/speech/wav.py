"""Waveforms as bytes: 16-bit PCM, and WAV around it."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

_HEADER_BYTES: Final = 44
_UNKNOWN: Final = 0xFFFF_FFFF
"""The size in the header of a stream whose end is not known; readers read until it ends."""


def pcm16(waveform: npt.NDArray[np.float32]) -> bytes:
    """Samples as 16-bit integers, little-endian; beyond full scale they are clipped."""
    scaled = np.clip(np.rint(waveform.astype(np.float64) * 32_767), -32_768, 32_767)
    return scaled.astype("<i2").tobytes()


def wav_header(rate: int, pcm_bytes: int | None) -> bytes:
    """The header of mono 16-bit samples; without a size, of a stream."""
    data = _UNKNOWN if pcm_bytes is None else pcm_bytes
    whole = _UNKNOWN if pcm_bytes is None else pcm_bytes + _HEADER_BYTES - 8
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", whole, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", data),
    )
