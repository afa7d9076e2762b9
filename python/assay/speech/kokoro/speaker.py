"""Text to speech, sentence by sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Final

import numpy as np

from assay.errors import InputError
from assay.runtime import Device
from assay.speech.kokoro.harmonics import SAMPLE_RATE, Floats
from assay.speech.kokoro.model import COMPUTE_TYPES, MOST_PHONEMES, open_kokoro
from assay.speech.kokoro.voice_names import LANGUAGES
from assay.speech.kokoro.voices import mixture
from assay.speech.phonemes.english import English, Phonemes
from assay.speech.phonemes.sentences import cut, sentences

_BRITISH: Final = "b"
_ENGLISH: Final = ("a", _BRITISH)
SPEEDS: Final = (0.25, 4.0)
"""The least and the greatest speed, those of OpenAI's API."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that was said."""

    text: str
    phonemes: Phonemes
    waveform: Floats
    """Samples at `SAMPLE_RATE`; none where all of its words were left out."""
    synthesis_seconds: float
    """How long it took to compute."""

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.waveform) / SAMPLE_RATE


class Speaker:
    """Kokoro, and the phonemes of the languages that it can read."""

    def __init__(
        self, folder: Path, device: Device | str = "cpu", compute_type: str = COMPUTE_TYPES[0]
    ) -> None:
        """Open the folder that `assay pull kokoro` makes."""
        self.model = open_kokoro(folder, device, compute_type)
        self._english = {
            letter: English(folder, self.model.vocabulary, british=letter == _BRITISH)
            for letter in _ENGLISH
        }

    def stream(
        self,
        text: str,
        voice: str,
        *,
        speed: float = 1.0,
        seed: int | None = 0,
        as_phonemes: bool = False,
    ) -> Iterator[Sentence]:
        """Say a text, each sentence as soon as it is computed.

        With `as_phonemes` the text is phonemes already, which a voice of any language can say.
        """
        check_request(text, voice, speed, as_phonemes=as_phonemes)
        language = voice.strip()[0]
        for sentence in sentences(text):
            for part in self._parts(sentence, None if as_phonemes else self._english[language]):
                started = time.perf_counter()
                written, phonemes = part
                if phonemes.left_out and not phonemes.has_words:
                    yield Sentence(written, phonemes, np.zeros(0, np.float32), 0.0)
                elif phonemes.text:
                    said = self.model.speak(phonemes.text, voice, speed=speed, seed=seed)
                    elapsed = time.perf_counter() - started
                    yield Sentence(written, phonemes, said.waveform, elapsed)

    def check_words(self, text: str, voice: str, *, name: str = "TEXT") -> None:
        """Refuse a text of which no word can be said; the name is that of the text in the error."""
        english = self._english[voice.strip()[0]]
        if not any(english.phonemes(sentence).has_words for sentence in sentences(text)):
            raise InputError(
                f'{name}: expected words of English, got "{shorten(text, 40, placeholder="...")}"',
                "words of other languages can be said as phonemes, by their voices",
            )

    def _parts(self, sentence: str, english: English | None) -> Iterator[tuple[str, Phonemes]]:
        """A sentence and its phonemes, in parts where they are too many."""
        phonemes = Phonemes(sentence, (), ()) if english is None else english.phonemes(sentence)
        if len(phonemes.text) <= MOST_PHONEMES:
            yield sentence, phonemes
            return
        # Half of the text has about half of the phonemes.
        half = max(len(sentence) // 2, 1)
        parts = list(cut(sentence, half, None if english is None else english.unbroken))
        if parts == [sentence]:
            # One word with too many phonemes of its own, which the model refuses.
            yield sentence, phonemes
            return
        for part in parts:
            yield from self._parts(part, english)


def check_request(text: str, voice: str, speed: float, *, as_phonemes: bool = False) -> None:
    """Refuse what cannot be said, before anything is computed."""
    if not text.strip():
        raise InputError("TEXT: expected something to say, got nothing")
    least, greatest = SPEEDS
    if not least <= speed <= greatest:
        raise InputError(f"speed: expected {least} to {greatest:g}, got {speed:g}")
    for name in mixture(voice):
        if name[0] not in _ENGLISH and not as_phonemes:
            raise InputError(
                f'voice "{name}": expected a voice of English, got one of {LANGUAGES[name[0]]}',
                "text is read as English only; give phonemes, with --phonemes",
            )
