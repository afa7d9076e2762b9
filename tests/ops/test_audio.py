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


@pytest.mark.parametrize("shape", [(997,), (2, 3, 50), (1,), (0,), (2, 0)])
def test_filters_take_any_leading_axes(shape: tuple[int, ...]) -> None:
    x, (b, a) = normal(*shape), signal.butter(3, 0.3)
    recursive, state = audio.recursive_filter(upload(b, "f4"), upload(a, "f4"), upload(x))
    direct, history = audio.fir(upload(x), upload(b, "f4"))
    assert recursive.shape == direct.shape == shape
    assert state.shape == history.shape == (*shape[:-1], 3)
    if x.size:
        assert np.abs(recursive.to_numpy() - signal.lfilter(b, a, x.astype(float))).max() < 1e-5
        assert np.abs(direct.to_numpy() - signal.lfilter(b, 1.0, x.astype(float))).max() < 1e-5


@pytest.mark.parametrize(("up", "down"), [(1, 1), (3, 2), (1, 3), (160, 441), (441, 160), (4, 2)])
@pytest.mark.parametrize("samples", [0, 1, 1009])
def test_a_resampled_stream_is_the_whole(up: int, down: int, samples: int) -> None:
    x, stream = normal(samples), audio.StreamingResampler(up, down)
    whole = audio.resample(upload(x), up, down).to_numpy()
    # The second time after a flush.
    for cuts in ([], [1, 3, 200], [500, 500, 501]):
        parts = [stream.push(upload(chunk)).to_numpy() for chunk in np.split(x, cuts)]
        assert np.array_equal(np.concatenate([*parts, stream.flush().to_numpy()]), whole)
    # What is computed in advance is bounded: most of a long stream comes before its end.
    given = sum(stream.push(upload(normal(1000))).size for _ in range(5))
    assert given > 4 * 1000 * up // down


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
    long = normal(9973)
    at = np.clip((np.arange(19949) + 0.5) * 9973 / 19949 - 0.5, 0, None)
    linear = audio.interpolate(upload(long), 19949, mode="linear").to_numpy()
    assert np.abs(linear - np.interp(at, np.arange(9973), long.astype(float))).max() < 2e-6


@pytest.mark.parametrize("hz", [82.4, 220.0, 441.7, 987.0])
def test_pitch_of_a_tone_with_overtones(hz: float) -> None:
    time = np.arange(16000) / 16000
    tone = sum(np.sin(2 * np.pi * hz * order * time) / order for order in (1, 2, 3))
    got = audio.yin(upload(tone, "f4"), 16000, lowest=60, highest=1200).to_numpy()
    # A parabola through three lags: 0.25 % off where a period is 16 samples.
    assert np.abs(got / hz - 1).max() < 3e-3


def test_pitch_is_that_of_librosa() -> None:
    time = np.arange(8000) / 16000
    phase = 2 * np.pi * (120 * time + 90 * time**2)
    x = np.sin(phase) + 0.4 * np.sin(2 * phase)
    x += 0.1 * np.random.default_rng(7).standard_normal(8000)
    x[6000:] = np.random.default_rng(8).standard_normal(2000)
    # librosa 0.11.0: yin(x, fmin=70, fmax=800, sr=16000, frame_length=1024, hop_length=512, center=False) of float32
    # in double precision; the last frames are noise.
    expected = [
        *(125.8457, 131.9108, 137.9823, 143.2804, 149.2321, 155.2262, 160.4151, 166.5668),
        *(172.2282, 178.032, 182.2638, 183.3923, 86.06216, 69.869),
    ]
    got = audio.yin(upload(x, "f4"), 16000, lowest=70, highest=800, frame=1024).to_numpy()
    assert np.abs(got - expected).max() < 1e-5 * max(expected)
    # Silence has no dip: the shortest period.
    silence = audio.yin(upload(np.zeros(4096, np.float32)), 16000, lowest=70, highest=800)
    assert silence.to_numpy().tolist() == [800.0] * 5
    with pytest.raises(AssayError, match="two periods"):
        audio.yin(upload(x, "f4"), 16000, lowest=70, highest=800, frame=20)


def test_onsets_of_clicks() -> None:
    x = 1e-4 * normal(16000)
    for second in (0.2, 0.5, 0.75):
        x[int(16000 * second) :][:400] += np.hanning(400).astype(np.float32)
    filters = audio.mel_filters(16000, 512, 40)
    levels = audio.decibels(audio.mel_spectrogram(upload(x), filters, hop=160))
    frames = audio.onsets(audio.onset_strength(levels), wait=10, before=10, after=10, delta=0.2)
    assert np.allclose(np.array(frames) * 160 / 16000, [0.2, 0.5, 0.75], atol=0.02)
    values = levels.to_numpy()
    for lag in (1, 3, 200):
        rises = np.maximum(values[:, lag:] - values[:, : max(values.shape[1] - lag, 0)], 0).mean(0)
        strength = audio.onset_strength(levels, lag=lag).to_numpy()
        assert np.allclose(strength, np.pad(rises, (min(lag, values.shape[1]), 0)), atol=1e-4)
    assert audio.onsets(upload(np.zeros(9, np.float32))) == []
