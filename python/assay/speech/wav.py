"""Waveforms as bytes: 16-bit PCM, and WAV around it."""

from __future__ import annotations

import struct
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from assay.errors import InputError

_OTHER_FORMATS: Final = frozenset(
    (".aac", ".aif", ".aiff", ".flac", ".m4a", ".mp3", ".mp4", ".oga", ".ogg", ".opus", ".webm")
)
"""Names that promise another format than what would be written."""
_HEADER_BYTES: Final = 44
_UNKNOWN: Final = 0xFFFF_FFFF
"""The size in the header of a stream whose end is not known; readers read until it ends."""


def check_wav_path(path: str | PathLike[str]) -> None:
    """Refuse, before anything is computed, a path where no WAV file can be or be recognized."""
    folder, suffix = Path(path).parent, Path(path).suffix
    if not folder.is_dir():
        raise InputError(f"{path}: expected a folder that exists, got {folder}")
    if Path(path).is_dir():
        raise InputError(f"{path}: expected the name of a WAV file, got a folder")
    if suffix.lower() in _OTHER_FORMATS:
        raise InputError(
            f"{path}: expected the name of a WAV file, got {suffix}",
            f"write speech.wav, then: ffmpeg -i speech.wav speech{suffix}",
        )


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
