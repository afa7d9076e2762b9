"""English text to phonemes."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.speech.phonemes.alphabet import PAUSES, is_vowel_first
from assay.speech.phonemes.lexicon import Context, Lexicon
from assay.speech.phonemes.normalizing import normalized
from assay.speech.phonemes.spelling import Speller

_TOKEN: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*'?(?:-[^\W\d_]+)*|[^\w\s]+|\s+")
_CASES: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+")
"""Parts of a word such as vLLM, NVLink or GPUs: capitals, or small letters behind one of them."""
_KEPT: Final = frozenset(';:,.!?—…"“”()')
_TAPS: Final = str.maketrans({"ɾ": "T", "ʔ": "t"})
"""Kokoro's vocabulary has other letters for the tap and the glottal stop than the lists."""


@dataclass(frozen=True, slots=True)
class Phonemes:
    """The phonemes of a text."""

    text: str
    spelled: tuple[str, ...]
    """Words of no list, which a small network spelled out."""
    left_out: tuple[str, ...]
    """Words in letters that are not English."""


class English:
    """Phonemes of English text, American or British."""

    def __init__(self, folder: Path, *, british: bool = False) -> None:
        """Name the folder of lists and weights that `assay pull kokoro` makes."""
        self._lexicon = Lexicon(folder, british=british)
        self._path = folder / "spelling.npz"
        self._speller: Speller | None = None

    def phonemes(self, text: str) -> Phonemes:
        """The phonemes of a text."""
        tokens = _TOKEN.findall(normalized(text, british=self._lexicon.british))
        spelled: list[str] = []
        left_out: list[str] = []
        said: list[str] = []
        follows: bool | None = None
        # From the last to the first: weak forms depend on the sound that follows.
        for at in range(len(tokens) - 1, -1, -1):
            token = tokens[at]
            if token.isspace():
                phonemes = " "
            elif token[0].isalpha():
                context = Context(_word(tokens, at, -1), _word(tokens, at, 1), follows)
                phonemes = self._word(token, context, spelled, left_out)
                follows = is_vowel_first(phonemes)
            else:
                phonemes = _punctuation(token)
                if any(mark in PAUSES for mark in phonemes):
                    follows = None
            said.append(phonemes)
        joined = " ".join("".join(reversed(said)).split())
        return Phonemes(
            joined.translate(_TAPS), tuple(reversed(spelled)), tuple(reversed(left_out))
        )

    def _word(self, word: str, context: Context, spelled: list[str], left_out: list[str]) -> str:
        listed = self._lexicon.phonemes(word, context)
        if listed is not None:
            return listed
        if "-" in word:
            parts = word.split("-")
            return " ".join(
                self._word(part, Context(), spelled, left_out) for part in parts if part
            )
        parts = _CASES.findall(word)
        if len(parts) > 1:
            return " ".join(self._word(part, Context(), spelled, left_out) for part in parts)
        plain = _without_accents(word)
        if plain != word:
            return self._word(plain, context, spelled, left_out)
        if not word.replace("'", "").isascii():
            left_out.append(word)
            return ""
        if self._speller is None:
            self._speller = Speller(self._path)
        spelled.append(word)
        phonemes = self._speller.phonemes(word.lower().replace("'", ""))
        return phonemes.replace("O", "Q") if self._lexicon.british else phonemes


def _word(tokens: list[str], at: int, step: int) -> str:
    """The word before or after a place, in lower case; empty where a pause is between."""
    at += step
    while 0 <= at < len(tokens):
        token = tokens[at]
        if token[0].isalpha():
            return token.lower()
        if any(mark in PAUSES for mark in token):
            return ""
        at += step
    return ""


def _punctuation(token: str) -> str:
    if token in ("-", "--", "---"):
        return "—"
    if token == "...":
        return "…"
    return "".join(mark for mark in token if mark in _KEPT)


def _without_accents(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
