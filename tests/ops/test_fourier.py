"""Transforms of any length, STFT and its inverse against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_operations import upload

from assay import xp
from assay.errors import AssayError
from assay.ops import audio

RNG = np.random.default_rng(8)
LENGTHS = [1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 37, 97, 121, 200, 256, 401, 1009, 1024, 4099, 6000]


def assert_close(got: np.ndarray, expected: np.ndarray, relative: float = 2e-6) -> None:
    assert got.shape == expected.shape
    assert np.abs(got - expected).max(initial=0) <= relative * np.abs(expected).max(initial=1e-30)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("rows", [1, 19])
def test_transforms_of_any_length(length: int, rows: int) -> None:
    real = RNG.standard_normal((rows, length)).astype(np.float32)
    complex_ = (real + 1j * RNG.standard_normal((rows, length))).astype(np.complex64)
    for name, values in (("fft", complex_), ("ifft", complex_), ("rfft", real), ("fft", real)):
        expected = getattr(np.fft, name)(values.astype(complex if name != "rfft" else float))
        got = getattr(xp.fft, name)(upload(values)).to_numpy()
        assert got.dtype == np.complex64
        assert_close(got, expected)
    half = np.fft.rfft(real.astype(float)).astype(np.complex64)
    assert_close(xp.fft.irfft(upload(half), n=length).to_numpy(), real)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_axis_length_and_norm_are_those_of_numpy(norm: str) -> None:
    values = RNG.standard_normal((4, 9, 6)).astype(np.float32)
    for name, n in (("fft", 7), ("ifft", 12), ("rfft", None), ("rfft", 5)):
        expected = getattr(np.fft, name)(values.astype(float), n=n, axis=1, norm=norm)
        given = upload(values.astype(np.complex64) if name == "ifft" else values)
        got = getattr(xp.fft, name)(given, n=n, axis=1, norm=norm)
        assert_close(got.to_numpy(), expected)
    spectrum = (values + 1j).astype(np.complex64)
    # What a real signal cannot have, imaginary ends, does not count.
    expected = np.fft.irfft(spectrum.astype(complex), n=14, axis=1, norm=norm)
    assert_close(xp.fft.irfft(upload(spectrum), n=14, axis=1, norm=norm).to_numpy(), expected)


@pytest.mark.slow
@pytest.mark.parametrize("length", [10_000_000, 10_000_019, 2**23])
def test_a_long_signal_is_transformed_in_single_precision(length: int) -> None:
    values = np.random.default_rng(1).standard_normal(length).astype(np.float32)
    assert_close(xp.fft.rfft(upload(values)).to_numpy(), np.fft.rfft(values.astype(float)))


def reference_stft(x: np.ndarray, n_fft: int, hop: int, mode: str | None) -> np.ndarray:
    wide = x.astype(float)
    if mode is not None:
        wide = np.pad(wide, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode)  # type: ignore[call-overload]
    count = 1 + (wide.shape[-1] - n_fft) // hop
    at = np.arange(count)[:, None] * hop + np.arange(n_fft)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    return np.swapaxes(np.fft.rfft(wide[..., at] * window), -1, -2)


@pytest.mark.parametrize(
    ("shape", "n_fft", "hop", "mode"),
    [
        ((5000,), 400, 160, "reflect"),
        ((3, 777), 64, 16, "constant"),
        ((1200,), 256, 100, None),
        ((300,), 75, 20, "reflect"),
        ((500,), 74, 30, "reflect"),
        ((2, 20), 20, 5, "reflect"),
    ],
)
def test_stft_transforms_windowed_frames(
    shape: tuple[int, ...], n_fft: int, hop: int, mode: str | None
) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    expected = reference_stft(x, n_fft, hop, mode)
    options = {"hop": hop, "center": mode is not None, "pad_mode": mode or "reflect"}
    got = audio.stft(upload(x), n_fft, **options)  # type: ignore[arg-type]
    assert got.dtype is xp.complex64
    assert_close(got.to_numpy(), expected)
    power = audio.stft(upload(x), n_fft, value="power", **options)  # type: ignore[arg-type]
    assert_close(power.to_numpy(), np.abs(expected) ** 2, 4e-6)
    magnitude = audio.stft(upload(x), n_fft, value="magnitude", **options)  # type: ignore[arg-type]
    assert_close(magnitude.to_numpy(), np.abs(expected))
    if mode is not None and n_fft % 2 == 0:
        back = audio.istft(got, hop=hop, length=shape[-1])
        covered = (got.shape[-1] - 1) * hop
        assert_close(back.to_numpy()[..., :covered], x[..., :covered], 4e-6)


def test_a_stream_gives_the_frames_of_the_whole() -> None:
    x = RNG.standard_normal(3000).astype(np.float32)
    whole = audio.stft(upload(x), 128, hop=48, center=False).to_numpy()
    stream = audio.StreamingSTFT(128, 48)
    parts = [stream.push(upload(chunk)) for chunk in np.split(x, [1, 100, 500, 501, 2000])]
    joined = np.concatenate([part.to_numpy() for part in parts if part is not None], -1)
    assert np.array_equal(joined, whole)


def test_frames_are_views() -> None:
    x = upload(np.arange(10, dtype=np.float32))
    pieces = audio.frames(x, 4, 3)
    assert pieces.to_numpy().tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert pieces.buffer is x.buffer


@pytest.mark.parametrize("samples", [0, 1, 5])
def test_a_signal_too_short_to_reflect_is_named(samples: int) -> None:
    with pytest.raises(AssayError, match="to reflect"):
        audio.stft(upload(np.zeros(samples, np.float32)), 10)
    assert audio.stft(upload(np.zeros(samples, np.float32)), 10, pad_mode="constant").shape[0] == 6
