"""The source that Kokoro's generator filters, harmonics of the pitch and noise, and its spectra."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assay.speech.products import linear

Floats = npt.NDArray[np.float32]

SAMPLE_RATE: Final = 24_000
FFT: Final = 20
HOP: Final = 5
SAMPLES_PER_PITCH: Final = 300
"""Samples for each value of the pitch: the generator's upsampling, 10 * 6, times the hop."""
_HARMONICS: Final = 9
_ZERO: Final = np.float32(0)
_AMPLITUDE: Final = np.float32(0.1)
_VOICED_NOISE: Final = np.float32(0.003)
_VOICED_ABOVE_HZ: Final = 10.0
_BINS: Final = FFT // 2 + 1
_WINDOW: Final = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)


class Source(NamedTuple):
    """The layer that mixes the harmonics."""

    weight: Floats
    bias: Floats

    def waveform(self, pitch: Floats, seed: int | None) -> Floats:
        """The source for a pitch in Hz: sines where it is voiced, noise everywhere.

        The noise is that of the PyTorch definition, from a generator with this seed; without a
        seed there is none, as in the exported graph.
        """
        cycles = np.cumsum(pitch.astype(np.float64)[:, None] * _orders() / SAMPLE_RATE % 1, axis=0)
        cycles = _interpolated(cycles * SAMPLES_PER_PITCH)
        # Whole cycles away, single precision is enough.
        phases = (cycles - np.rint(cycles)).astype(np.float32)
        voiced = np.repeat(pitch > _VOICED_ABOVE_HZ, SAMPLES_PER_PITCH)[:, None]
        sines = np.sin(phases * np.float32(2 * np.pi)) * np.where(voiced, _AMPLITUDE, _ZERO)
        if seed is not None:
            noise = np.random.default_rng(seed).standard_normal(sines.shape, np.float32)
            sines += noise * np.where(voiced, _VOICED_NOISE, _AMPLITUDE / 3)
        mixed: Floats = np.tanh(linear(sines, self.weight, self.bias)[:, 0])
        return mixed


def spectrum(waveform: Floats) -> Floats:
    """Magnitudes, then phases, of a short-time Fourier transform: (2 * bins, frames)."""
    padded = np.pad(waveform.astype(np.float64), FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
    transformed = np.fft.rfft(frames * _WINDOW, axis=1).T
    return np.concatenate([np.abs(transformed), np.angle(transformed)]).astype(np.float32)


def synthesis(outputs: Floats) -> Floats:
    """The waveform of what the generator gives: logarithms of magnitudes, then sources of phases."""
    magnitude = np.exp(outputs[:_BINS])
    phase = np.sin(outputs[_BINS:])
    parts = np.fft.irfft((magnitude * np.exp(1j * phase)).T, FFT, axis=1) * _WINDOW
    count = len(parts)
    steps = FFT // HOP
    total = np.zeros((count + steps - 1, HOP))
    weight = np.zeros_like(total)
    squares = (_WINDOW**2).reshape(steps, HOP)
    for step in range(steps):
        total[step : step + count] += parts[:, step * HOP : (step + 1) * HOP]
        weight[step : step + count] += squares[step]
    inside = slice(FFT // 2, total.size - FFT // 2)
    return (total.reshape(-1)[inside] / weight.reshape(-1)[inside]).astype(np.float32)


def _orders() -> npt.NDArray[np.float64]:
    return np.arange(1, _HARMONICS + 1, dtype=np.float64)


def _interpolated(frames: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each frame as many samples, linearly between the middles of frames, constant at the ends."""
    around = np.concatenate([frames[:1], frames, frames[-1:]])
    share = (np.arange(SAMPLES_PER_PITCH)[:, None] + 0.5) / SAMPLES_PER_PITCH
    # From the middle of each frame to that of the next one.
    between = around[:-1, None] + np.diff(around, axis=0)[:, None] * share
    half = SAMPLES_PER_PITCH // 2
    samples: npt.NDArray[np.float64] = between.reshape(-1, frames.shape[1])[half:-half]
    return samples
