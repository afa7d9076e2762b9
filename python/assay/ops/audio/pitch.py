"""Pitch by YIN (de Cheveigne and Kawahara 2002)."""

from __future__ import annotations

from assay.errors import InputError
from assay.lazy_import import np
from assay.ops.audio.spectra import frames
from assay.ops.operands import F32, check
from assay.runtime import allocation, dtypes, fourier, transfer
from assay.runtime.array import Array


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
    """The fundamental frequency in Hz of each frame of a signal (samples,), without padding.

    The period is the first dip of the cumulative mean normalized difference function below `threshold`, or its
    lowest point, refined by a parabola. A frame is compared with itself over half its length.
    """
    name = "yin"
    check(name, "x", x, (None,), F32)
    if not 0 < lowest < highest <= sample_rate / 2:
        raise InputError(
            f"{name}: expected frequencies from above 0 Hz up to {sample_rate / 2} Hz, got {lowest} to {highest}"
        )
    half = frame // 2
    shortest = int(sample_rate // highest)
    longest = min(int(np.ceil(sample_rate / lowest)), half - 1)
    if longest <= shortest + 1:
        raise InputError(
            f"{name}: expected frames of two periods of {lowest} Hz or more, got {frame} samples"
        )
    pieces = transfer.copy(frames(x, frame, hop), name)
    difference = _difference(pieces, half, longest)
    lags = np.arange(1, longest + 1)
    total = np.maximum(np.cumsum(difference[:, 1:], -1), np.finfo(np.float32).tiny)
    normalized = difference[:, 1:] * lags / total
    periods = _dips(normalized, shortest, threshold)
    return transfer.store(name, x.device, sample_rate / periods, dtypes.float32)


def _difference(
    pieces: Array, half: int, longest: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The sums over half a frame of squared differences from what lies up to `longest` samples later."""
    count, frame = pieces.shape
    size = 2 * frame
    padded = allocation.zeros(pieces.device, (2, count, size), dtypes.float32, "yin")
    padded[0, :, :frame] = pieces
    padded[1, :, :half] = pieces[:, half - 1 :: -1]
    first, second = (fourier.transform("rfft", padded[side], size, 1.0) for side in range(2))
    product = first * second
    correlation = fourier.transform("irfft", product, size, 1 / size).to_numpy()
    products = correlation[:, half - 1 : half + longest].astype(float)
    squares = np.cumsum(np.square(pieces.to_numpy().astype(float)), -1)
    energy = np.concatenate([np.zeros((count, 1)), squares], -1)
    lags = np.arange(longest + 1)
    later = energy[:, half + lags] - energy[:, lags]
    difference = later[:, :1] + later - 2 * products
    # Rounding of single precision: what is below it is nothing.
    return np.where(difference < 1e-6 * later[:, :1], 0.0, difference)


def _dips(
    normalized: np.ndarray[tuple[int, int], np.dtype[np.float64]], shortest: int, threshold: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The period of each row: column c is lag c + 1."""
    first = max(shortest, 2) - 1
    values = normalized[:, first - 1 :]
    inner = values[:, 1:-1]
    dips = (inner <= values[:, :-2]) & (inner < values[:, 2:])
    low = dips & (inner < threshold)
    chosen = np.where(low.any(-1), low.argmax(-1), inner.argmin(-1)) + 1
    rows = np.arange(len(values))
    before, at, after = (values[rows, chosen + step] for step in (-1, 0, 1))
    curve = before - 2 * at + after
    shift = np.where(
        np.abs(curve) > 1e-12, (before - after) / (2 * np.where(curve == 0, 1, curve)), 0
    )
    return np.asarray(chosen + first + np.clip(shift, -1, 1), float)
