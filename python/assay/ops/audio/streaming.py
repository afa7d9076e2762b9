"""Spectra and rates of a stream: chunks of any size give what the whole gives."""

from __future__ import annotations

import math

from assay.errors import InputError
from assay.ops.audio.resampling import half_width, resample
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


class StreamingResampler:
    """A `resample` with its own filter, of samples that arrive in chunks."""

    def __init__(self, up: int, down: int, *, device: Device | str = "cpu") -> None:
        """Begin a stream at up / down times its rate."""
        if not isinstance(up, int) or not isinstance(down, int) or min(up, down) < 1:
            raise InputError(
                f"StreamingResampler: expected factors of 1 or more, got {up} and {down}"
            )
        divisor = math.gcd(up, down)
        self._up, self._down = up // divisor, down // divisor
        self._half = half_width(self._up, self._down)
        self._device = device_named(device)
        self._kept = allocation.zeros(self._device, (0,), dtypes.float32, "StreamingResampler")
        self._first = 0
        """The number of the first sample that is kept: a multiple of `down`, whose output is at the same time."""
        self._given = 0
        """Outputs so far."""

    def push(self, samples: Array) -> Array:
        """The samples of the new rate that these complete; none where there are none."""
        name = "StreamingResampler"
        check(name, "samples", samples, (None,), F32)
        kept = self._kept.size
        joined = allocation.empty(self._device, (kept + samples.size,), dtypes.float32, name)
        joined[:kept] = self._kept
        joined[kept:] = samples
        self._kept = joined
        # Output j is of samples up to (j * down + half) // up.
        received = self._first + joined.size
        return self._outputs(max((received * self._up - self._half - 1) // self._down + 1, 0))

    def flush(self) -> Array:
        """The last samples of the new rate, behind which is silence; the next chunk begins another stream."""
        received = self._first + self._kept.size
        rest = self._outputs(-(-received * self._up // self._down))
        self._kept, self._first, self._given = self._kept[:0], 0, 0
        return rest

    def _outputs(self, end: int) -> Array:
        """The outputs before number `end` that were not given yet; samples that none needs any more are dropped."""
        shift = self._first // self._down * self._up
        end = max(end, self._given)
        whole = resample(self._kept, self._up, self._down)
        fresh = whole[self._given - shift : end - shift]
        self._given = end
        needed = max(-((self._half - end * self._down) // self._up), 0)
        first = min(needed, self._first + self._kept.size) // self._down * self._down
        self._kept = self._kept[max(first - self._first, 0) :]
        self._first = max(first, self._first)
        return fresh
