"""Kokoro's modules, small, against what the PyTorch definition computes with the same weights.

`record_oracle.py` says how the oracle was recorded.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from small_weights import drawn

from assay.runtime import Array, device, transfer
from assay.speech.kokoro import harmonics
from assay.speech.kokoro.decoder import build_generator
from assay.speech.kokoro.layers import Builder
from assay.speech.kokoro.prosody import build_predictor
from assay.speech.kokoro.text import build_albert, build_text_encoder

ORACLE: dict[str, Any] = json.loads(Path(__file__).with_name("oracle.json").read_text())
TOKENS = np.array([0, 3, 7, 19, 2, 0])
STYLE = drawn("style", (1, 5))[0]
CLOSE = 1e-4


def expect(name: str, values: npt.NDArray[Any]) -> None:
    recorded = ORACLE[name]
    assert values.size == np.prod(recorded["shape"])
    got = values.astype(float).reshape(-1)[:: recorded["step"]]
    error = np.abs(got - recorded["values"]).max() / recorded["largest"]
    assert error < CLOSE, f"{name}: {error:.1e} of its range"


@pytest.fixture
def builder() -> Builder:
    weights = {name: drawn(name, shape) for name, shape in ORACLE["shapes"].items()}
    return Builder(weights, device("cpu"))


def stored(name: str, *shape: int) -> Array:
    return transfer.store(name, device("cpu"), drawn(name, shape))


def test_block_that_doubles_the_length(builder: Builder) -> None:
    block = builder.styled_block("block")
    result = block.forward(stored("block input", 1, 6, 9), builder.styles.of(STYLE), "block")
    expect("block", result.to_numpy())


def test_generator_and_its_waveform(builder: Builder) -> None:
    generator = build_generator(builder, "generator", (10, 6))
    spectrum = drawn("spectrum", (1, 22, 241))[0]
    outputs = generator.forward(
        stored("generator input", 1, 8, 4), spectrum, builder.styles.of(STYLE)
    )
    expect("generator", outputs)
    expect("waveform", harmonics.synthesis(outputs))


def test_text_encoder(builder: Builder) -> None:
    expect("text_encoder", build_text_encoder(builder, 2).forward(TOKENS).to_numpy().T)


def test_albert(builder: Builder) -> None:
    expect("bert", build_albert(builder, 3, 2).forward(TOKENS).to_numpy())


def test_prosody(builder: Builder) -> None:
    predictor = build_predictor(builder, 2)
    style = builder.styles.of(STYLE)
    rows = np.ascontiguousarray(drawn("predictor input", (1, 8, 6))[0].T)
    encoded = predictor.encode(transfer.store("rows", device("cpu"), rows), STYLE, style)
    expect("predictor.encoded", encoded.to_numpy())
    # One value in seven is recorded: the first.
    (duration,) = ORACLE["predictor.durations"]["values"]
    assert predictor.lengths(encoded, 1.0)[0] == max(round(duration), 1)
    assert predictor.lengths(encoded, 0.01)[0] == round(100 * duration)
    pitch, loudness = predictor.curves(encoded, style)
    expect("predictor.pitch", pitch.to_numpy())
    expect("predictor.loudness", loudness.to_numpy())


def test_source_of_harmonics() -> None:
    weight, bias = np.zeros((1, 9), np.float32), np.zeros(1, np.float32)
    pitch = np.array([0.0, 120.0, 121.5, 180.0, 3.0, 240.0], np.float32)
    sines = np.empty((1800, 9))
    for harmonic in range(9):
        weight[:] = 0
        weight[0, harmonic] = 1
        source = harmonics.Source(weight, bias).waveform(pitch, None)
        sines[:, harmonic] = np.arctanh(source.astype(float))
    expect("sines", sines)


def test_noise_depends_on_the_seed_alone() -> None:
    weight, bias = np.full((1, 9), 0.2, np.float32), np.zeros(1, np.float32)
    source = harmonics.Source(weight, bias)
    pitch = np.zeros(40, np.float32)
    first, again = source.waveform(pitch, 3), source.waveform(pitch, 3)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, source.waveform(pitch, 4))
    # Of each of nine harmonics a third of the amplitude of 0.1, times 0.2.
    assert np.std(first) == pytest.approx(0.2 * 3 * 0.1 / 3, rel=0.05)
    assert not source.waveform(pitch, None).any()


def test_spectrum_of_a_cosine() -> None:
    waveform = np.cos(2 * np.pi * 0.2 * np.arange(200)).astype(np.float32)
    spectrum = harmonics.spectrum(waveform)
    assert spectrum.shape == (22, 41)
    # Half of the window's sum of 10, in bin 4 of 20; the phase advances by one turn a hop.
    assert spectrum[4, 5:-5] == pytest.approx(5.0, abs=1e-4)
    assert spectrum[15, 5:-5] == pytest.approx(0.0, abs=1e-4)
