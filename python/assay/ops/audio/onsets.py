"""Onsets: where sounds begin."""

from __future__ import annotations

from assay.errors import ShapeError
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array


def onset_strength(levels: Array, *, lag: int = 1) -> Array:
    """The spectral flux of levels (bands, frames) in decibels: the mean rise over `lag` frames; 0 for the first."""
    if levels.ndim != 2 or lag < 1:
        raise ShapeError(
            f"onset_strength: expected (bands, frames) and a lag of 1 or more, got {tuple(levels.shape)} and {lag}"
        )
    from assay import xp

    frames = levels.shape[1]
    strength = allocation.zeros(levels.device, (frames,), dtypes.float32, "onset_strength")
    if frames > lag:
        rises = xp.maximum(levels[:, lag:] - levels[:, : frames - lag], 0.0)
        strength[lag:] = xp.mean(rises, axis=0)
    return strength


def onsets(
    strength: Array, *, wait: int = 1, before: int = 3, after: int = 3, delta: float = 0.07
) -> list[int]:
    """The frames where the strength, scaled to 0 to 1, peaks.

    A peak is the largest from `before` to `after` frames around, `delta` above their mean, and more than `wait` frames
    after the one before (Boeck, Krebs and Schedl 2012).
    """
    values = strength.to_numpy().astype(float)
    if values.ndim != 1:
        raise ShapeError(f"onsets: expected (frames,), got {tuple(values.shape)}")
    if not values.size or values.max() <= values.min():
        return []
    values = (values - values.min()) / (values.max() - values.min())
    peaks: list[int] = []
    for frame, value in enumerate(values):
        near = values[max(frame - before, 0) : frame + after + 1]
        is_peak = value == near.max() and value >= near.mean() + delta
        if is_peak and (not peaks or frame - peaks[-1] > wait):
            peaks.append(frame)
    return peaks
