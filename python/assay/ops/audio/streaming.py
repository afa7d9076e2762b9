"""Spectra of a stream: chunks of any size give the frames of the whole."""

from __future__ import annotations

from assay.errors import InputError
from assay.ops.audio.spectra import stft
from assay.ops.audio.windows import window as make_window
from assay.ops.operands import F32, check
from assay.runtime import allocation, dtypes
from assay.runtime.array import Array
from assay.runtime.hardware import Device, device as device_named


class StreamingSTFT:
    """An `stft` without centering, of samples that arrive in chunks."""

    def __init__(
        self,
        n_fft: int,
        hop: int,
        *,
        window: Array | None = None,
        value: str = "complex",
        device: Device | str = "cpu",
    ) -> None:
        """Begin a stream of frames of `n_fft` samples, `hop` apart."""
        if not 1 <= hop <= n_fft:
            raise InputError(f"StreamingSTFT: expected a hop from 1 to {n_fft} samples, got {hop}")
        self._n_fft, self._hop, self._value = n_fft, hop, value
        self._device = device_named(device)
        self._window = make_window("hann", n_fft, device=self._device) if window is None else window
        self._kept = allocation.zeros(self._device, (0,), dtypes.float32, "StreamingSTFT")

    def push(self, samples: Array) -> Array | None:
        """The frames that these samples complete, (bins, frames); None where there are none."""
        check("StreamingSTFT", "samples", samples, (None,), F32)
        kept = self._kept.size
        joined = allocation.empty(
            self._device, (kept + samples.size,), dtypes.float32, "StreamingSTFT"
        )
        joined[:kept] = self._kept
        joined[kept:] = samples
        count = (joined.size - self._n_fft) // self._hop + 1 if joined.size >= self._n_fft else 0
        self._kept = joined[count * self._hop :]
        if not count:
            return None
        return stft(
            joined, self._n_fft, hop=self._hop, window=self._window, center=False, value=self._value
        )
