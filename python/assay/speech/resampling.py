"""Resampling to another rate by a windowed sinc, one filter for each phase."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from assay.lazy_import import np
from assay.speech.products import linear

if TYPE_CHECKING:
    import numpy.typing as npt

    Samples = npt.NDArray[np.float32]

_ZERO_CROSSINGS: Final = 32
"""Of the sinc, on each side: the transition band is a 32nd of the lower Nyquist frequency."""
_KAISER_BETA: Final = 9.0
"""Side lobes below -90 dB (Kaiser and Schafer, 1980: beta = 0.1102 (A - 8.7))."""
_ROLLOFF: Final = 0.94
"""Where the filter is half down, as a share of the lower Nyquist frequency, so that what is above
it is cut although the filter has a transition band."""


def resample(samples: Samples, rate: int, target: int) -> Samples:
    """The samples at another rate; the first ones are of the same time.

    >>> len(resample(np.zeros(480, np.float32), 48_000, 16_000))
    160
    """
    divisor = math.gcd(rate, target)
    up, down = target // divisor, rate // divisor
    if up == down or not samples.size:
        return samples
    count = -(-samples.size * up // down)
    # In input samples: how far the filter reaches to each side.
    cutoff = _ROLLOFF * min(1.0, up / down)
    reach = math.ceil(_ZERO_CROSSINGS / cutoff)
    padded = np.zeros(samples.size + 2 * reach + 2, np.float32)
    padded[reach : reach + samples.size] = samples
    out = np.empty(count, np.float32)
    taps = np.arange(-reach, reach + 2)
    for phase in range(min(up, count)):
        # Output `phase + k * up` is of input time `first + fraction + k * down`.
        first, remainder = divmod(phase * down, up)
        distance = taps - remainder / up
        window = np.i0(
            _KAISER_BETA * np.sqrt(np.clip(1.0 - (distance / (reach + 1)) ** 2, 0.0, None))
        ) / np.i0(_KAISER_BETA)
        kernel = (cutoff * np.sinc(cutoff * distance) * window).astype(np.float32)
        kernel /= kernel.sum()
        outputs = len(range(phase, count, up))
        windows = np.lib.stride_tricks.as_strided(
            padded[first:], (outputs, kernel.size), (4 * down, 4), writeable=False
        )
        out[phase::up] = linear(windows, kernel[None])[:, 0]
    return out
