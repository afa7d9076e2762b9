"""Recordings: WAV and FLAC of any rate and number of channels, as samples of one channel."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from assay._native import SoundFile
from assay.errors import InputError
from assay.lazy_import import np
from assay.speech import other_formats
from assay.speech.resampling import resample

if TYPE_CHECKING:
    import numpy.typing as npt

_LEAST_RATE: Final = 1_000
_MOST_HOURS: Final = 12
_GREATEST: Final = 1 << 16
"""A small file may claim to be years long, and samples beyond those of 16-bit integers have no power in
single precision: such files are refused before memory is taken for them."""

_SILENCE: Final = 2 / 32_768
_OTHER_FORMAT: Final = "first bytes: expected"
"""What errors about files that are neither WAV nor FLAC say."""
_DATA: Final = 'chunk "data"'
"""The field that errors about the samples of a WAV file name."""
_PLACEHOLDERS: Final = (0x7FFF_F000, 0x7FFF_FF00, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
"""Bytes of samples that programs claim that write WAV into a pipe before they know its length: espeak-ng and older
releases of sox the first, arecord the second or the fourth, lame the third, ffmpeg and newer sox the last."""
_LESS: Final = 0x100
"""By so much such a claim may be less: the header, or the rest of a frame."""

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
    def is_silent(self) -> bool:
        """Whether no sample is louder than rounding to 16 bits could be."""
        return float(np.abs(self.samples).max()) <= _SILENCE

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.samples.size / self.rate


def read_sound(source: str | PathLike[str] | bytes, rate: int) -> Recording:
    """Read a recording, its channels averaged, at this rate.

    A file that is neither WAV nor FLAC is converted by ffmpeg where that is installed. Bytes are not: they may be a
    stranger's.
    """
    if isinstance(source, bytes):
        return _recording(_opened(source), "recording", rate)
    path = Path(source)
    if not path.is_file():
        raise InputError(
            f"{path}: expected a recording, got {'a folder' if path.is_dir() else 'no such file'}",
            "WAV and FLAC are read, other formats with ffmpeg; - reads from a pipe",
        )
    try:
        return _recording(_opened(path), str(path), rate)
    except InputError as error:
        if _OTHER_FORMAT not in error.message or not other_formats.is_convertible():
            raise
    with TemporaryDirectory() as folder:
        converted = Path(folder) / "converted.wav"
        # A little more than is allowed, so that what is too long is not cut in silence.
        other_formats.convert(path, converted, _MOST_HOURS * 3600 + 1)
        return _recording(_opened(converted), str(path), rate)


def _recording(file: SoundFile, name: str, rate: int) -> Recording:
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
    try:
        parts = [
            np.frombuffer(file.mono(start, _BLOCK_FRAMES), np.float32)
            for start in range(0, file.frames, _BLOCK_FRAMES)
        ]
    except InputError as error:
        if error.message.startswith(name):
            raise
        raise InputError(f"{name}: {error.message}", error.hint) from error
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


def _opened(source: Path | bytes) -> SoundFile:
    try:
        return SoundFile.from_bytes(source) if isinstance(source, bytes) else SoundFile(source)
    except InputError as error:
        if _OTHER_FORMAT in error.message:
            error.hint = "other formats have to be converted: ffmpeg -i RECORDING recording.wav"
        elif f"{_DATA}: expected" in error.message and "before the end" in error.message:
            content = source if isinstance(source, bytes) else source.read_bytes()
            if (stream := _without_length(content)) is not None:
                return SoundFile.from_bytes(stream)
            error.hint = "it was cut off; what is there can be kept: ffmpeg -i RECORDING kept.wav"
        raise


def _without_length(content: bytes) -> bytes | None:
    """A WAV file whose length is a placeholder, as one that lasts until its end; None of any other."""
    at = 12
    while at + 8 <= len(content):
        size = int.from_bytes(content[at + 4 : at + 8], "little")
        if content[at : at + 4] == b"data":
            # Any other size is one of a recording that was cut off, however large.
            if not any(0 <= claimed - size < _LESS for claimed in _PLACEHOLDERS):
                return None
            return content[: at + 4] + b"\xff" * 4 + content[at + 8 :]
        at += 8 + size + size % 2
    return None
