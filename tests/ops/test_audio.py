"""Windows, mel spectra, filters, pitch and onsets against SciPy, closed forms and recorded numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.signal
from numpy_operations import upload

from assay.errors import AssayError
from assay.ops import audio

RNG = np.random.default_rng(11)
signal: Any = scipy.signal
"""Its overloads do not take a union of windows."""


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "rectangular", "kaiser"])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_those_of_scipy(name: str, periodic: bool) -> None:
    named = {"rectangular": "boxcar", "kaiser": ("kaiser", 12.0)}.get(name, name)
    for length in (1, 2, 7, 400):
        expected = signal.get_window(named, length, fftbins=periodic)
        got = audio.window(name, length, periodic=periodic).to_numpy()
        assert np.abs(got - expected).max() < 1e-7
    assert audio.window(name, 0).shape == (0,)


def test_mel_scales_and_filters() -> None:
    # The break of the scale of Slaney is mel 15 at 1 kHz; the scale of O'Shaughnessy has 1000 mel near it.
    assert np.allclose(audio.hz_to_mel([0, 200 / 3, 1000, 6400]), [0, 1, 15, 42])
    assert audio.hz_to_mel(1000, htk=True) == pytest.approx(999.99, abs=0.01)
    for htk in (False, True):
        hz = np.linspace(0, 8000, 50)
        assert np.allclose(audio.mel_to_hz(audio.hz_to_mel(hz, htk=htk), htk=htk), hz)
    filters = audio.mel_filters(16000, 400, 80).to_numpy()
    # librosa 0.11.0: filters.mel(sr=16000, n_fft=400, n_mels=80), which is what Whisper's files hold.
    assert filters.shape == (80, 201)
    assert filters[0, 1] == pytest.approx(0.02486259, rel=1e-6)
    assert filters[79, 198] == pytest.approx(0.000897518, rel=1e-6)
    flat = audio.mel_filters(16000, 512, 20, normalize=False).to_numpy()
    assert flat.max() <= 1
    # Between the first and the last peak neighbors sum to one.
    inner = flat.sum(0)[(flat.argmax(1)[0]) : flat.argmax(1)[-1]]
    assert np.allclose(inner, 1, atol=1e-5)


def test_mel_spectrogram_decibels_and_cepstrum() -> None:
    x, filters = normal(2, 4000), audio.mel_filters(16000, 256, 24)
    power = audio.stft(upload(x), 256, pad_mode="constant", value="power").to_numpy().astype(float)
    expected = filters.to_numpy().astype(float) @ power
    mel = audio.mel_spectrogram(upload(x), filters)
    assert np.abs(mel.to_numpy() - expected).max() < 2e-6 * expected.max()
    levels = audio.decibels(mel).to_numpy()
    unbounded = 10 * np.log10(np.maximum(expected, 1e-10))
    assert np.abs(levels - np.maximum(unbounded, unbounded.max() - 80)).max() < 1e-4
    cepstrum = audio.mfcc(audio.decibels(mel), 13).to_numpy()
    assert np.allclose(cepstrum, scipy.fft.dct(levels, axis=-2, norm="ortho")[:, :13], atol=1e-3)


@pytest.mark.parametrize(("up", "down"), [(1, 1), (2, 1), (1, 3), (160, 441), (3, 2), (6, 4)])
def test_resampling_is_that_of_scipy(up: int, down: int) -> None:
    for samples in (1, 2, 997):
        x = normal(2, samples)
        expected = signal.resample_poly(x.astype(float), up, down, axis=-1)
        got = audio.resample(upload(x), up, down).to_numpy()
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()
    assert audio.resample(upload(normal(3, 0)), up, down).shape == (3, 0)


def test_filters_are_those_of_scipy_and_continue_a_stream() -> None:
    x = normal(3, 500)
    b, a = signal.butter(4, 0.2)
    expected = signal.lfilter(b, a, x.astype(float))
    whole, _ = audio.recursive_filter(upload(b, "f4"), upload(a, "f4"), upload(x))
    assert np.abs(whole.to_numpy() - expected).max() < 1e-5 * np.abs(expected).max()
    taps = normal(9)
    filtered = signal.lfilter(taps.astype(float), 1.0, x.astype(float))
    assert np.abs(audio.fir(upload(x), upload(taps))[0].to_numpy() - filtered).max() < 1e-5
    state, history, recursive, direct = None, None, [], []
    for chunk in np.split(x, [1, 3, 200], -1):
        part, state = audio.recursive_filter(
            upload(b, "f4"), upload(a, "f4"), upload(chunk), state=state
        )
        recursive.append(part.to_numpy())
        part, history = audio.fir(upload(chunk), upload(taps), history=history)
        direct.append(part.to_numpy())
    assert np.abs(np.concatenate(recursive, -1) - expected).max() < 1e-5
    assert np.abs(np.concatenate(direct, -1) - filtered).max() < 1e-5


def test_padding_and_interpolation() -> None:
    x = normal(2, 7)
    for mode, name in (("reflect", "reflect"), ("edge", "edge"), ("constant", "constant")):
        for before, after in ((3, 2), (0, 6), (6, 0), (0, 0)):
            expected = np.pad(x, ((0, 0), (before, after)), name)  # type: ignore[call-overload]
            assert np.array_equal(
                audio.pad(upload(x), before, after, mode=mode).to_numpy(), expected
            )
    with pytest.raises(AssayError, match="reflect"):
        audio.pad(upload(x), 7, 0)
    assert np.array_equal(audio.interpolate(upload(x), 14).to_numpy(), np.repeat(x, 2, -1))
    at = np.clip((np.arange(21) + 0.5) / 3 - 0.5, 0, None)
    linear = np.stack([np.interp(at, np.arange(7), row) for row in x])
    assert np.allclose(
        audio.interpolate(upload(x), 21, mode="linear").to_numpy(), linear, atol=1e-6
    )
    ends = np.stack([np.interp(np.linspace(0, 6, 5), np.arange(7), row) for row in x])
    got = audio.interpolate(upload(x), 5, mode="linear", align_corners=True)
    assert np.allclose(got.to_numpy(), ends, atol=1e-6)


@pytest.mark.parametrize("hz", [82.4, 220.0, 441.7, 987.0])
def test_pitch_of_a_tone_with_overtones(hz: float) -> None:
    time = np.arange(16000) / 16000
    tone = sum(np.sin(2 * np.pi * hz * order * time) / order for order in (1, 2, 3))
    got = audio.yin(upload(tone, "f4"), 16000, lowest=60, highest=1200).to_numpy()
    # A parabola through three lags: 0.25 % off where a period is 16 samples.
    assert np.abs(got / hz - 1).max() < 3e-3


def test_onsets_of_clicks() -> None:
    x = 1e-4 * normal(16000)
    for second in (0.2, 0.5, 0.75):
        x[int(16000 * second) :][:400] += np.hanning(400).astype(np.float32)
    filters = audio.mel_filters(16000, 512, 40)
    levels = audio.decibels(audio.mel_spectrogram(upload(x), filters, hop=160))
    frames = audio.onsets(audio.onset_strength(levels), wait=10, before=10, after=10, delta=0.2)
    assert np.allclose(np.array(frames) * 160 / 16000, [0.2, 0.5, 0.75], atol=0.02)
    assert audio.onsets(upload(np.zeros(9, np.float32))) == []
