"""Pitch by YIN (de Cheveigne and Kawahara 2002)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.ops.audio.spectra import frames
from assay.ops.operands import F32, check
from assay.runtime import dtypes, transfer
from assay.runtime.array import Array

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_BLOCK: Final = 512
"""Frames compared at once."""


def yin(
    x: Array,
    sample_rate: float,
    *,
    lowest: float,
    highest: float,
    frame: int = 2048,
    hop: int = 512,
    threshold: float = 0.1,
) -> Array:
    """The fundamental frequency in Hz of each frame of a signal (samples,), without padding, as librosa 0.11.

    The period is the first dip of the cumulative mean normalized difference function below `threshold`, or its
    lowest point, refined by a parabola. Differences are small beside what they are taken from: they are computed in
    double precision, on the host.
    """
    name = "yin"
    check(name, "x", x, (None,), F32)
    if not 0 < lowest < highest <= sample_rate / 2:
        raise InputError(
            f"{name}: expected frequencies from above 0 Hz up to {sample_rate / 2} Hz, got {lowest} to {highest}"
        )
    shortest = int(sample_rate // highest)
    longest = min(int(np.ceil(sample_rate / lowest)), frame - 1)
    if longest <= shortest + 1:
        raise InputError(
            f"{name}: expected frames of two periods of {highest} Hz or more, got {frame} samples"
        )
    pieces = frames(x, frame, hop)
    periods = [
        _periods(
            _normalized_difference(
                pieces[first : first + _BLOCK].to_numpy().astype(float), longest
            ),
            shortest,
            threshold,
        )
        for first in range(0, pieces.shape[0], _BLOCK)
    ]
    return transfer.store(name, x.device, sample_rate / np.concatenate(periods), dtypes.float32)


def _normalized_difference(pieces: Floats, longest: int) -> Floats:
    """The difference of each frame from itself some samples later, over the mean of those of shorter lags.

    It is 2 (r(0) - r(lag)) without the energy of as many first samples, with the autocorrelation r.
    """
    from scipy import fft

    count, frame = pieces.shape
    size = fft.next_fast_len(frame + longest, real=True)
    spectrum = fft.rfft(pieces, size)
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    correlation = fft.irfft(power, size)[:, : longest + 1]
    difference = np.zeros((count, longest + 1))
    difference[:, 1:] = 2 * (correlation[:, :1] - correlation[:, 1:])
    difference[:, 1:] -= np.cumsum(np.square(pieces[:, :longest]), -1)
    means = np.cumsum(difference[:, 1:], -1) / np.arange(1, longest + 1)
    difference[:, 1:] /= means + np.finfo(float).tiny
    return difference


def _periods(normalized: Floats, shortest: int, threshold: float) -> Floats:
    """The period of each row, whose column is the lag."""
    values = normalized[:, shortest:]
    dips = np.zeros(values.shape, bool)
    dips[:, 0] = values[:, 0] < values[:, 1]
    dips[:, 1:-1] = (values[:, 1:-1] < values[:, :-2]) & (values[:, 1:-1] <= values[:, 2:])
    dips[:, -1] = values[:, -1] < values[:, -2]
    low = dips & (values < threshold)
    chosen = np.where(low.any(-1), low.argmax(-1), values.argmin(-1))
    # Neither end has a neighbor on both sides.
    rows, inner = np.arange(len(values)), np.clip(chosen, 1, values.shape[1] - 2)
    before, at, after = (values[rows, inner + step] for step in (-1, 0, 1))
    curve, slope = before - 2 * at + after, (after - before) / 2
    is_refined = (inner == chosen) & (np.abs(slope) < np.abs(curve))
    shift = np.where(is_refined, -slope / np.where(is_refined, curve, 1.0), 0.0)
    return np.asarray(chosen + shortest + shift, float)
