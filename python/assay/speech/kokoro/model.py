"""Kokoro-82M: phonemes and a style to a waveform."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay.errors import InputError
from assay.runtime import Array, Device, device as device_named, transfer
from assay.speech.kokoro import harmonics
from assay.speech.kokoro.decoder import Decoder, build_decoder
from assay.speech.kokoro.harmonics import Floats
from assay.speech.kokoro.layers import Builder, Styles
from assay.speech.kokoro.onnx_names import read_parameters
from assay.speech.kokoro.prosody import Predictor, build_predictor
from assay.speech.kokoro.text import Albert, TextEncoder, build_albert, build_text_encoder, columns
from assay.speech.kokoro.voices import Voices

MOST_PHONEMES: Final = 510
"""Of one text: positions of the ALBERT without the two that mark its ends."""
_STYLE_HALF: Final = 128
COMPUTE_TYPES: Final = ("default", "bfloat16")
"""Precisions of the convolutions that make sound; by default 16 bits of those of the generator, 24 of the others."""


_PRECISIONS: Final = {"default": ("highest", "high"), "bfloat16": ("medium", "medium")}
"""Of the decoder's blocks and the generator. With 16 bits in the generator the waveform is as near to that of 24 as
two programs of single precision are to each other: about 100 dB; with 8, about 45."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A waveform and how it was timed."""

    waveform: Floats
    """Samples at `harmonics.SAMPLE_RATE`."""
    frames: npt.NDArray[np.int64]
    """Frames of each phoneme, with those of the marks at both ends."""


@dataclass(frozen=True, slots=True)
class Kokoro:
    """The model in device memory."""

    device: Device
    vocabulary: dict[str, int]
    voices: Voices
    albert: Albert
    text_encoder: TextEncoder
    predictor: Predictor
    decoder: Decoder
    prosody_styles: Styles
    decoder_styles: Styles

    def tokens(self, phonemes: str) -> npt.NDArray[np.int64]:
        """The numbers of phonemes, between the marks of the ends; characters it does not know are left out."""
        known = [self.vocabulary[letter] for letter in phonemes if letter in self.vocabulary]
        if len(known) > MOST_PHONEMES:
            raise InputError(
                f"phonemes: expected at most {MOST_PHONEMES} at once, got {len(known)}",
                "split the text into sentences",
            )
        return np.array([0, *known, 0])

    def speak(
        self, phonemes: str, voice: str, *, speed: float = 1.0, seed: int | None = 0
    ) -> Spoken:
        """Say phonemes with a voice, which may be a mixture; `seed` is that of the source's noise."""
        tokens = self.tokens(phonemes)
        return self.speak_tokens(tokens, self.voices.style(voice, len(tokens) - 2), speed, seed)

    def speak_tokens(
        self, tokens: npt.NDArray[np.int64], style: Floats, speed: float, seed: int | None
    ) -> Spoken:
        """Say tokens in a style."""
        if not 0 < speed < float("inf"):
            raise InputError(f"speed: expected a number above 0, got {speed}")
        prosody = self.prosody_styles.of(style[_STYLE_HALF:])
        encoded = self.predictor.encode(self.albert.forward(tokens), style[_STYLE_HALF:], prosody)
        frames = self.predictor.lengths(encoded, speed)
        pitch, loudness = self.predictor.curves(_repeated(encoded, frames), prosody)
        aligned = columns(_repeated(self.text_encoder.forward(tokens), frames))
        sound = self.decoder_styles.of(style[:_STYLE_HALF])
        generator = self.decoder.generator
        # Read before the features are queued, so that the host makes the source meanwhile.
        heights = pitch.to_numpy().reshape(-1)
        features = self.decoder.features(aligned, pitch, loudness, sound)
        source = generator.source.waveform(heights, seed)
        outputs = generator.forward(features, harmonics.spectrum(source), sound)
        return Spoken(harmonics.synthesis(outputs), frames)


def _repeated(rows: Array, counts: npt.NDArray[np.int64]) -> Array:
    """Each row as often as its count says."""
    return transfer.store("alignment", rows.device, np.repeat(rows.to_numpy(), counts, axis=0))


def open_kokoro(
    folder: Path, device: Device | str = "cpu", compute_type: str = COMPUTE_TYPES[0]
) -> Kokoro:
    """Open the folder that `assay pull kokoro` makes."""
    target = device_named(device)
    _check_compute_type(compute_type, target)
    configuration = _configuration(folder / "config.json")
    parameters = read_parameters(folder / "model.onnx")
    prosody, sound = Builder(parameters, target), Builder(parameters, target)
    albert = configuration["plbert"]
    model = Kokoro(
        target,
        configuration["vocab"],
        Voices(folder / "voices.bin"),
        build_albert(prosody, albert["num_hidden_layers"], albert["num_attention_heads"]),
        build_text_encoder(prosody, configuration["n_layer"]),
        build_predictor(prosody, configuration["n_layer"]),
        build_decoder(sound, *_PRECISIONS[compute_type]),
        prosody.styles,
        sound.styles,
    )
    for styles in (model.prosody_styles, model.decoder_styles):
        styles.packed()
    return model


def _check_compute_type(compute_type: str, device: Device) -> None:
    if compute_type not in COMPUTE_TYPES:
        raise InputError(f"compute_type: expected {' or '.join(COMPUTE_TYPES)}, got {compute_type}")
    if compute_type != COMPUTE_TYPES[0] and device.capabilities.is_gpu:
        raise InputError(
            f"compute_type: expected default on {device}, got {compute_type}",
            "bfloat16 is for the CPU",
        )


def _configuration(path: Path) -> dict[str, Any]:
    try:
        configuration: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: expected Kokoro's configuration, got: {error}",
            "fetch it with: assay pull kokoro",
        ) from None
    return configuration
