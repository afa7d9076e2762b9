"""English text to phonemes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.speech.phonemes.alphabet import PAUSES, is_vowel_first
from assay.speech.phonemes.lexicon import Context, Lexicon
from assay.speech.phonemes.normalizing import normalized
from assay.speech.phonemes.spelling import Speller

_FIRST_MARK: Final = 0xE000
_MOST_MARKS: Final = 0x1900
_MARKS: Final = f"{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MOST_MARKS - 1)}"
"""Characters of private use, of which each stands for given phonemes."""
_PRIVATE: Final = re.compile(f"[{_MARKS}]")
_GIVEN: Final = re.compile(r"\[[^\]\n]*\]\(/([^/\n]*)/\)")
"""A word with its phonemes, as Kokoro's own package takes it: [Kokoro](/kˈOkəɹO/)."""
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\([^)\s]*\)")
_TOKEN: Final = re.compile(
    rf"[{_MARKS}]|[^\W\d_]+(?:'[^\W\d_]+)*'?(?:-[^\W\d_]+)*|[^\w\s{_MARKS}]+|\s+"
)
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

    @property
    def has_words(self) -> bool:
        """Whether there is more to say than pauses."""
        return any(letter.isalpha() for letter in self.text)


class English:
    """Phonemes of English text, American or British."""

    def __init__(self, folder: Path, vocabulary: Container[str], *, british: bool = False) -> None:
        """Name the folder of lists and weights that `assay pull kokoro` makes, and the phonemes that can be said."""
        self._vocabulary = vocabulary
        self._lexicon = Lexicon(folder, british=british)
        self._path = folder / "spelling.npz"
        self._speller: Speller | None = None

    def phonemes(self, text: str) -> Phonemes:
        """The phonemes of a text, in which a word in brackets may have its own behind it, between (/ and /)."""
        text, given = self._without_given(text)
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
            elif token in given:
                phonemes = given[token]
                follows = is_vowel_first(phonemes)
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

    def unbroken(self, text: str) -> list[tuple[int, int]]:
        """From where to where words have phonemes or a link behind them, of which a part is neither."""
        given = [match for match in _GIVEN.finditer(text) if self._is_said(match[1])]
        return [match.span() for match in (*given, *_LINK.finditer(text))]

    def _without_given(self, text: str) -> tuple[str, dict[str, str]]:
        """A text with a mark for each word whose phonemes it gives, those phonemes, and links as their words."""
        given: dict[str, str] = {}

        def marked(match: re.Match[str]) -> str:
            if len(given) == _MOST_MARKS or not self._is_said(match[1]):
                return match[0]
            mark = chr(_FIRST_MARK + len(given))
            given[mark] = match[1]
            return mark

        text = _GIVEN.sub(marked, _PRIVATE.sub(" ", text))
        return _LINK.sub(r"\1", text), given

    def _is_said(self, behind: str) -> bool:
        """Whether what is between (/ and /) is phonemes; letters of ASCII alone are a path such as (/install/)."""
        return not behind.isascii() and all(letter in self._vocabulary for letter in behind)

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
