"""Kokoro-82M itself, where it was downloaded: durations and pitch of the PyTorch definition."""

from pathlib import Path

import numpy as np
import pytest

from assay.runtime import transfer
from assay.speech.kokoro.harmonics import SAMPLE_RATE
from assay.speech.kokoro.layers import Builder
from assay.speech.kokoro.model import open_kokoro
from assay.speech.kokoro.speaker import Speaker

PHONEMES = "həlˈO wˈɜɹld, ðɪs ɪz ɐ tˈɛst."  # noqa: RUF001
# kokoro 0.9.4 with the weights of the ONNX file and the voice af_heart.
FRAMES = [
    14,
    2,
    3,
    2,
    3,
    2,
    2,
    1,
    2,
    2,
    4,
    3,
    3,
    2,
    2,
    2,
    2,
    2,
    2,
    2,
    1,
    1,
    1,
    2,
    3,
    4,
    4,
    3,
    11,
    7,
    1,
]
PITCH_HZ = [
    *(0.0875957, 0.0325811, 0.0708055, 239.507, 247.764, 284.731, 193.725, 173.462, 171.311),
    *(193.213, 203.014, 178.041, 175.549, 216.654, 147.017, -0.261857, -0.00742793, -0.0221113),
    -0.286332,
]
"""Every tenth value."""


@pytest.mark.slow
def test_durations_and_pitch(kokoro_folder: Path) -> None:
    model = open_kokoro(kokoro_folder)
    tokens = model.tokens(PHONEMES)
    style = model.voices.style("af_heart", len(tokens) - 2)
    prosody = model.prosody_styles.of(style[128:])
    encoded = model.predictor.encode(model.albert.forward(tokens), style[128:], prosody)
    assert model.predictor.lengths(encoded, 1.0).tolist() == FRAMES
    said = model.speak(PHONEMES, "af_heart")
    assert said.frames.tolist() == FRAMES
    assert len(said.waveform) == 600 * sum(FRAMES)
    aligned = np.repeat(encoded.to_numpy(), FRAMES, axis=0)
    pitch, _ = model.predictor.curves(transfer.store("aligned", model.device, aligned), prosody)
    errors = np.abs(pitch.to_numpy().reshape(-1)[::10] - PITCH_HZ)
    assert errors.max() < 1e-4 * 317


@pytest.mark.slow
def test_sixteen_bits_of_the_generator_are_inaudible(
    kokoro_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_kokoro(kokoro_folder)
    said = model.speak(PHONEMES, "bf_emma").waveform.astype(float)
    monkeypatch.setattr(Builder, "with_precision", lambda builder, _: builder)
    exact = open_kokoro(kokoro_folder).speak(PHONEMES, "bf_emma").waveform.astype(float)
    assert 10 * np.log10((exact**2).sum() / ((said - exact) ** 2).sum()) > 90


@pytest.mark.slow
def test_sentences_are_streamed(kokoro_folder: Path) -> None:
    speaker = Speaker(kokoro_folder)
    first, second = speaker.stream("Hello there. Dr. Who paid $2.", "af_heart", speed=1.5)
    assert (first.text, second.text) == ("Hello there.", "Dr. Who paid $2.")
    assert first.seconds == len(first.waveform) / SAMPLE_RATE
    assert 0.3 < first.seconds < 2
    assert 0.05 < np.abs(first.waveform).max() < 1
