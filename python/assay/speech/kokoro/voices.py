"""Voices of Kokoro: styles by the length of what is said, and mixtures of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from assay.errors import InputError, unknown_name
from assay.speech.kokoro.voice_names import VOICES

LENGTHS: Final = 510
"""Numbers of phonemes that a voice has a style for."""
STYLE: Final = 256
"""Numbers of a style: the decoder's half, then the predictor's."""


class Voices:
    """The styles of all voices, mapped from their file."""

    def __init__(self, path: Path) -> None:
        """Map the file."""
        try:
            styles = np.memmap(path, np.float32, "r")
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: expected the voices of Kokoro, got: {error}") from None
        if styles.size != len(VOICES) * LENGTHS * STYLE:
            raise InputError(
                f"{path}: expected {len(VOICES)} voices of {LENGTHS * STYLE * 4:,} bytes, got "
                f"{styles.nbytes:,} bytes"
            )
        self._styles = styles.reshape(len(VOICES), LENGTHS, STYLE)

    def style(self, voice: str, phonemes: int) -> npt.NDArray[np.float32]:
        """The style of a voice, or of a mixture, for a text of this many phonemes."""
        row = min(max(phonemes, 1), LENGTHS) - 1
        style = np.zeros(STYLE)
        for name, share in mixture(voice).items():
            style += share * self._styles[VOICES.index(name), row]
        return style.astype(np.float32)


def mixture(voice: str) -> dict[str, float]:
    """The share of each voice in a text such as "af_heart", "af_heart+am_adam" or "af_heart:3+am_adam"."""
    weights: dict[str, float] = {}
    for part in voice.split("+"):
        name, colon, weight = part.strip().partition(":")
        if name not in VOICES:
            raise unknown_name("voice", name, VOICES, "assay speak --voices lists them")
        weights[name] = weights.get(name, 0.0) + (_weight(part, weight) if colon else 1.0)
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _weight(part: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 < weight < float("inf"):
        raise InputError(
            f"voice {part!r}: expected a weight above 0 after the colon, got {text!r}",
            "for example: af_heart:3+am_adam:1",
        )
    return weight
