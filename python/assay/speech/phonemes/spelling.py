"""A small recurrent network that spells out words of no list: the GRU of g2p-en."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from assay.errors import InputError
from assay.speech.phonemes.alphabet import ARPABET, from_arpabet
from assay.speech.products import linear

Floats = npt.NDArray[np.float32]

_END: Final = 2
_LETTERS: Final = {letter: 3 + at for at, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
_VOWELS: Final = frozenset(name for name in ARPABET if name[0] in "AEIOU")
_SOUNDS: Final = sorted(
    [name for name in ARPABET if name not in _VOWELS]
    + [f"{name}{stress}" for name in _VOWELS for stress in "012"]
    + ["UW"]
)
_START_SOUND: Final = 2
_END_SOUND: Final = 3
_FIRST_SOUND: Final = 4
_MOST_SOUNDS: Final = 20
_UNKNOWN: Final = 1


class Speller:
    """Sounds of a word from its letters."""

    def __init__(self, path: Path) -> None:
        """Read the weights."""
        try:
            with np.load(path) as stored:
                self._weights: dict[str, Floats] = {name: stored[name] for name in stored.files}
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: expected the weights of g2p-en, got: {error}",
                "fetch them with: assay pull kokoro",
            ) from None

    def sounds(self, word: str) -> list[str]:
        """ARPAbet of a word in lower case."""
        weights = self._weights
        state = np.zeros(weights["enc_w_hh"].shape[1], np.float32)
        for letter in [*(_LETTERS.get(letter, _UNKNOWN) for letter in word), _END]:
            state = self._step("enc", weights["enc_emb"][letter], state)
        sounds: list[str] = []
        sound = _START_SOUND
        while len(sounds) < _MOST_SOUNDS:
            state = self._step("dec", weights["dec_emb"][sound], state)
            sound = int(np.argmax(linear(state, weights["fc_w"], weights["fc_b"])))
            if sound == _END_SOUND:
                break
            if sound >= _FIRST_SOUND:
                sounds.append(_SOUNDS[sound - _FIRST_SOUND])
        return sounds

    def phonemes(self, word: str) -> str:
        """Phonemes of a word in lower case."""
        return "".join(map(from_arpabet, self.sounds(word)))

    def _step(self, part: str, inputs: Floats, state: Floats) -> Floats:
        weights = self._weights
        given = linear(inputs, weights[f"{part}_w_ih"], weights[f"{part}_b_ih"])
        kept = linear(state, weights[f"{part}_w_hh"], weights[f"{part}_b_hh"])
        size = len(state)
        gates = 1 / (1 + np.exp(-(given[: 2 * size] + kept[: 2 * size])))
        reset, update = gates[:size], gates[size:]
        new = np.tanh(given[2 * size :] + reset * kept[2 * size :])
        mixed: Floats = (1 - update) * new + update * state
        return mixed
