"""Mel filter banks, mel spectrograms and MFCC, with the conventions of librosa."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.lazy_import import np
from assay.ops.audio.spectra import stft
from assay.ops.matmul import batched_matmul
from assay.runtime import allocation, dtypes, transfer
from assay.runtime.array import Array

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

# The scale of Slaney (Auditory Toolbox, 1998): linear below 1 kHz, above it 27 steps for a factor of 6.4, which
# is ln(6.4) / 27 for each.
_LINEAR_HZ = 200 / 3
_LOG_FROM_HZ = 1000.0
_LOG_STEP = 0.06875177742094912


def hz_to_mel(frequencies: Any, *, htk: bool = False) -> Floats:
    """Frequencies on the mel scale: Slaney's, or with `htk` 2595 log10(1 + f / 700)."""
    hz = np.asarray(frequencies, float)
    if htk:
        return np.asarray(2595 * np.log10(1 + hz / 700))
    logarithmic = (
        _LOG_FROM_HZ / _LINEAR_HZ + np.log(np.maximum(hz, 1e-300) / _LOG_FROM_HZ) / _LOG_STEP
    )
    return np.where(hz >= _LOG_FROM_HZ, logarithmic, hz / _LINEAR_HZ)


def mel_to_hz(mels: Any, *, htk: bool = False) -> Floats:
    """The inverse of `hz_to_mel`."""
    values = np.asarray(mels, float)
    if htk:
        return np.asarray(700 * (10 ** (values / 2595) - 1))
    bend = _LOG_FROM_HZ / _LINEAR_HZ
    logarithmic = _LOG_FROM_HZ * np.exp(_LOG_STEP * (values - bend))
    return np.where(values >= bend, logarithmic, _LINEAR_HZ * values)


def mel_filters(
    sample_rate: float,
    n_fft: int,
    n_mels: int = 128,
    *,
    lowest: float = 0.0,
    highest: float | None = None,
    htk: bool = False,
    normalize: bool = True,
    device: Any = "cpu",
) -> Array:
    """Triangular filters, (n_mels, n_fft // 2 + 1), evenly spaced on the mel scale.

    With `normalize`, each has the area 1 (Slaney's); without, the peak 1.
    """
    highest = sample_rate / 2 if highest is None else highest
    if n_fft < 1 or n_mels < 1 or not 0 <= lowest < highest <= sample_rate / 2:
        raise InputError(
            f"mel_filters: expected filters from 0 Hz up to {sample_rate / 2} Hz, got {n_mels} from {lowest} to "
            f"{highest} Hz of {n_fft} samples"
        )
    bins = np.linspace(0, sample_rate / 2, n_fft // 2 + 1)
    if n_fft % 2:
        bins = np.arange(n_fft // 2 + 1) * sample_rate / n_fft
    ends = hz_to_mel([lowest, highest], htk=htk)
    edges = mel_to_hz(np.linspace(ends[0], ends[1], n_mels + 2), htk=htk)
    slopes = (edges[:, None] - bins) / 1.0
    rising = -slopes[:-2] / np.diff(edges)[:-1, None]
    falling = slopes[2:] / np.diff(edges)[1:, None]
    weights = np.maximum(0, np.minimum(rising, falling))
    if normalize:
        weights *= (2 / (edges[2:] - edges[:-2]))[:, None]
    from assay.runtime.hardware import device as device_named

    return transfer.store("mel_filters", device_named(device), weights, dtypes.float32)


def mel_spectrogram(
    x: Array,
    filters: Array,
    *,
    hop: int | None = None,
    window: Array | None = None,
    center: bool = True,
    pad_mode: str = "constant",
    power: float = 2.0,
) -> Array:
    """The mel spectrogram of (..., samples): (..., n_mels, frames); n_fft is that of the `filters`, and even.

    `power` is 2 for energies, 1 for magnitudes.
    """
    n_fft = 2 * (filters.shape[1] - 1)
    if power not in (1.0, 2.0):
        raise InputError(f"mel_spectrogram: expected a power of 1 or 2, got {power}")
    value = "power" if power == 2.0 else "magnitude"
    spectrum = stft(x, n_fft, hop=hop, window=window, center=center, pad_mode=pad_mode, value=value)
    if spectrum.ndim == 2:
        return batched_matmul(filters, spectrum)
    shape = (*spectrum.shape[:-2], filters.shape[0], spectrum.shape[-1])
    out = allocation.empty(x.device, shape, dtypes.float32, "mel_spectrogram")
    for index in np.ndindex(*spectrum.shape[:-2]):
        batched_matmul(filters, spectrum[index], out[index])
    return out


def decibels(
    power: Array, *, reference: float = 1.0, least: float = 1e-10, range_db: float | None = 80.0
) -> Array:
    """10 log10 of powers over a reference, at most `range_db` below the largest."""
    from assay import xp

    levels: Array = 10 * (
        xp.log10(xp.maximum(power, least)) - float(np.log10(max(reference, least)))
    )
    if range_db is None or not levels.size:
        return levels
    return xp.maximum(levels, xp.max(levels) - range_db)


def mfcc(mel_decibels: Array, count: int = 20) -> Array:
    """The first `count` coefficients of the orthonormal DCT-II over the mel axis of (..., n_mels, frames)."""
    n_mels = mel_decibels.shape[-2]
    if not 1 <= count <= n_mels:
        raise InputError(f"mfcc: expected 1 to {n_mels} coefficients, got {count}")
    orders, places = np.arange(count)[:, None], np.arange(n_mels) + 0.5
    basis = np.cos(np.pi * orders * places / n_mels) * np.sqrt(2 / n_mels)
    basis[0] /= np.sqrt(2)
    matrix = transfer.store("mfcc", mel_decibels.device, basis, dtypes.float32)
    result: Array = matrix @ mel_decibels
    return result
