"""Recordings: WAV and FLAC of any rate and number of channels, as samples of one channel."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay._native import SoundFile
from assay.errors import InputError
from assay.lazy_import import np
from assay.speech.resampling import resample

if TYPE_CHECKING:
    import numpy.typing as npt

_LEAST_RATE: Final = 1_000
_MOST_HOURS: Final = 12
_GREATEST: Final = 1 << 16
"""A small file may claim to be years long, and samples beyond those of 16-bit integers have no power in
single precision: such files are refused before memory is taken for them."""

_BLOCK_FRAMES: Final = 1 << 22
"""Frames read at once, so that a long recording of many channels is never in memory whole."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as one channel at the rate that a model takes."""

    samples: npt.NDArray[np.float32]
    rate: int
    stored_rate: int
    """Samples a second in the file."""
    channels: int
    """Channels of the file, which were averaged."""
    encoding: str
    """How the file stores samples."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.samples.size / self.rate


def read_sound(source: str | PathLike[str] | bytes, rate: int) -> Recording:
    """Read a recording, its channels averaged, at this rate."""
    if isinstance(source, bytes):
        file = SoundFile.from_bytes(source)
        name = "recording"
    else:
        path = Path(source)
        if not path.is_file():
            raise InputError(
                f"{path}: expected a recording, got "
                f"{'a folder' if path.is_dir() else 'no such file'}",
                "WAV and FLAC are read; - reads from a pipe",
            )
        file = SoundFile(path)
        name = str(path)
    if file.frames == 0:
        raise InputError(f"{name}: expected samples, got an empty recording")
    if file.rate < _LEAST_RATE:
        raise InputError(
            f"{name}: expected at least {_LEAST_RATE:,} samples a second, got {file.rate}"
        )
    if file.frames > _MOST_HOURS * 3600 * file.rate:
        hours = file.frames / file.rate / 3600
        raise InputError(
            f"{name}: expected at most {_MOST_HOURS} hours, got {hours:,.0f}",
            "cut it into parts first",
        )
    parts = [
        np.frombuffer(file.mono(start, _BLOCK_FRAMES), np.float32)
        for start in range(0, file.frames, _BLOCK_FRAMES)
    ]
    samples = parts[0] if len(parts) == 1 else np.concatenate(parts)
    loudest = max(float(samples.max()), -float(samples.min()))
    if loudest > _GREATEST:
        raise InputError(
            f"{name}: expected samples of at most {_GREATEST:,}, got one of {loudest:g}",
            "samples of floating point are from -1 to 1",
        )
    return Recording(
        resample(samples, file.rate, rate), rate, file.rate, file.channels, file.encoding
    )
