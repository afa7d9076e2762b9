"""Windows of frames."""

from __future__ import annotations

from typing import Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import dtypes, transfer
from assay.runtime.array import Array
from assay.runtime.hardware import Device, device as device_named

_COSINES: Final = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "rectangular": (1.0,),
}
"""Amplitudes of the cosines of each window, with alternating signs (Harris 1978)."""


def window(
    name: str,
    length: int,
    *,
    periodic: bool = True,
    beta: float = 12.0,
    device: Device | str = "cpu",
) -> Array:
    """A window of `length` samples: hann, hamming, blackman, rectangular or kaiser (with `beta`).

    A periodic one, for spectra, is one longer without its last sample; one that is not is symmetric, for filters.
    """
    if length < 0 or (name not in _COSINES and name != "kaiser"):
        raise InputError(
            f'window: expected a name and 0 or more samples, got "{name}" and {length}',
            f"one of: {', '.join((*_COSINES, 'kaiser'))}",
        )
    samples = length + int(periodic)
    if length <= 1:
        values = np.ones(length)
    elif name == "kaiser":
        values = np.kaiser(samples, beta)[:length]
    else:
        angles = 2 * np.pi * np.arange(length) / (samples - 1)
        signs = enumerate(_COSINES[name])
        values = sum(
            ((-1) ** order * amplitude * np.cos(order * angles) for order, amplitude in signs),
            np.zeros(length),
        )
    return transfer.store("window", device_named(device), values, dtypes.float32)
