"""Log-mel features of Whisper: 25 ms frames every 10 ms, mel bands, logarithms over 8 decades."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from assay.lazy_import import np
from assay.speech.products import linear

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

RATE: Final = 16_000
FRAME: Final = 400
HOP: Final = 160
FRAMES_PER_SECOND: Final = RATE // HOP
_BLOCK: Final = 3_000
"""Frames transformed at once."""
_FLOOR: Final = 1e-10
_DECADES: Final = 8.0


@cache
def mel_filters(bands: int) -> Floats:
    """Triangles on the mel scale of Slaney's Auditory Toolbox, each of equal area; bands by bins."""
    from assay.ops import audio

    filters: Floats = audio.mel_filters(RATE, FRAME, bands).to_numpy()
    return filters


def log_mel(samples: Floats, bands: int, *, padding: int = HOP) -> Floats:
    """Features of shape (bands, frames), of the samples and `padding` zeros behind them.

    Each is (log10(power) + 4) / 4, with powers raised to 8 decades below the largest.
    """
    framed = _padded(np.asarray(samples, np.float32), padding)
    count = (len(samples) + padding) // HOP
    window = np.hanning(FRAME + 1)[:-1].astype(np.float32)
    filters = mel_filters(bands)
    features = np.empty((bands, count), np.float32)
    strides = (HOP * framed.itemsize, framed.itemsize)
    for start in range(0, count, _BLOCK):
        frames = min(_BLOCK, count - start)
        windows = np.lib.stride_tricks.as_strided(
            framed[start * HOP :], (frames, FRAME), strides, writeable=False
        )
        spectrum = np.fft.rfft(windows * window, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        features[:, start : start + frames] = linear(filters, power)
    np.log10(np.maximum(features, _FLOOR), out=features)
    np.maximum(features, features.max() - _DECADES, out=features)
    features += 4.0
    features /= 4.0
    return features


def _padded(samples: Floats, zeros: int) -> Floats:
    """Samples and zeros, reflected by half a frame at both ends: hours of them are copied once."""
    half, size = FRAME // 2, samples.size + zeros
    if size <= half:
        # What is shorter than the reflected part is reflected more than once.
        mode: Literal["reflect", "edge"] = "reflect" if size > 1 else "edge"
        return np.pad(np.pad(samples, (0, zeros)), half, mode=mode)
    framed = np.zeros(size + 2 * half, np.float32)
    framed[half : half + samples.size] = samples
    framed[:half] = framed[half + 1 : 2 * half + 1][::-1]
    framed[-half:] = framed[-2 * half - 1 : -half - 1][::-1]
    return framed
