"""The vocabulary of Whisper: byte-level BPE whose merges follow from the order of its tokens."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from assay.errors import InputError
from assay.speech.whisper.languages import LANGUAGES, WITHOUT_SPACES

SECONDS_PER_TIMESTAMP: Final = 0.02
_TIMESTAMPS: Final = 1_501
"""From 0 to 30 seconds."""
_ENGLISH_TEXT_TOKENS: Final = 50_256
_MULTILINGUAL_TEXT_TOKENS: Final = 50_257
_TASK_TOKENS: Final = 6
"""translate, transcribe, startoflm, startofprev, nospeech, notimestamps."""

_CHARACTERS: Final = '"#()*+/:;<=>@[\\]^_`{|}~\u300c\u300d\u300e\u300f'
_COMBINED: Final = (
    "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} \u266a\u266a \u266a\u266a\u266a"
)
_SYMBOLS: Final = (*_CHARACTERS, *_COMBINED.split())
_MUSIC: Final = "\u2669\u266a\u266b\u266c\u266d\u266e\u266f"
"""What is not said: symbols, and notes of music by any of their tokens."""

_CONTRACTIONS: Final = re.compile(r"'(?:s|t|re|ve|m|ll|d)")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens of text as bytes, in the order of their ranks, and the special tokens behind them."""

    tokens: Sequence[bytes]
    size: int
    """With special tokens."""

    def __post_init__(self) -> None:
        """Refuse sizes that no Whisper model has."""
        texts = self.transcript_end
        if len(self.tokens) < texts or not 1 <= self.languages <= len(LANGUAGES):
            raise InputError(
                f"vocabulary: expected {_ENGLISH_TEXT_TOKENS} or {_MULTILINGUAL_TEXT_TOKENS} tokens "
                f"of text and up to {len(LANGUAGES)} languages, got {len(self.tokens)} of {self.size}"
            )

    @property
    def is_multilingual(self) -> bool:
        """Whether it has a token more than the English one."""
        return self.size > 51_864

    @property
    def transcript_end(self) -> int:
        """Behind the last token of a text; smaller tokens are text."""
        return _MULTILINGUAL_TEXT_TOKENS if self.is_multilingual else _ENGLISH_TEXT_TOKENS

    @property
    def transcript_start(self) -> int:
        """Before the language and task."""
        return self.transcript_end + 1

    @property
    def languages(self) -> int:
        """Languages that have a token."""
        return self.size - self.transcript_end - 2 - _TASK_TOKENS - _TIMESTAMPS

    def _task(self, place: int) -> int:
        return self.transcript_start + 1 + self.languages + place

    @property
    def translate(self) -> int:
        """The task of translating into English."""
        return self._task(0)

    @property
    def transcribe(self) -> int:
        """The task of writing what is said."""
        return self._task(1)

    @property
    def language_model(self) -> int:
        """<|startoflm|>, which is never generated."""
        return self._task(2)

    @property
    def previous_text(self) -> int:
        """Before text that precedes the recording."""
        return self._task(3)

    @property
    def no_speech(self) -> int:
        """Its probability after the start of the transcript is that of silence."""
        return self._task(4)

    @property
    def no_timestamps(self) -> int:
        """Asks for text without times."""
        return self._task(5)

    @property
    def first_timestamp(self) -> int:
        """0.00 seconds."""
        return self._task(6)

    def language(self, code: str) -> int:
        """The token of a language."""
        codes = list(LANGUAGES)[: self.languages]
        if code not in codes:
            raise InputError(f"language: expected one of the model's {self.languages}, got {code}")
        return self.transcript_start + 1 + codes.index(code)

    def language_tokens(self) -> range:
        """The tokens of all languages, in the order of `LANGUAGES`."""
        return range(self.transcript_start + 1, self.transcript_start + 1 + self.languages)

    def start(self, language: str, task: str) -> list[int]:
        """What a transcript starts with; an English model knows neither language nor task."""
        if not self.is_multilingual:
            return [self.transcript_start]
        chosen = self.translate if task == "translate" else self.transcribe
        return [self.transcript_start, self.language(language), chosen]

    @cached_property
    def _ranks(self) -> dict[bytes, int]:
        return {token: rank for rank, token in enumerate(self.tokens[: self.transcript_end])}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return [token for piece in _pieces(text) for token in self._merged(piece.encode())]

    def _merged(self, piece: bytes) -> list[int]:
        """Byte-pair encoding: the pair that makes the earliest token is merged first."""
        ranks = self._ranks
        parts = [piece[place : place + 1] for place in range(len(piece))]
        while len(parts) > 1:
            rank, place = min(
                (ranks.get(parts[place] + parts[place + 1], len(ranks)), place)
                for place in range(len(parts) - 1)
            )
            if rank == len(ranks):
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return [ranks[part] for part in parts]

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The bytes of the text among these tokens."""
        return b"".join(self.tokens[token] for token in tokens if token < self.transcript_end)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text among these tokens; bytes that are no UTF-8 become replacement characters."""
        return self.decode_bytes(tokens).decode("utf-8", errors="replace")

    @cached_property
    def not_said(self) -> tuple[int, ...]:
        """Tokens that a transcript does not have: symbols, and what only prompts have."""
        # Of these two, the token behind a space only; speech has them within words.
        tokens = {self.encode(" -")[0], self.encode(" '")[0]}
        for symbol in (*_SYMBOLS, *_MUSIC):
            for encoded in (self.encode(symbol), self.encode(" " + symbol)):
                if len(encoded) == 1 or symbol in _MUSIC:
                    tokens.add(encoded[0])
        tokens |= {self.transcribe, self.translate, self.transcript_start, self.previous_text}
        return tuple(sorted(tokens | {self.language_model, self.no_speech}))

    @cached_property
    def blank(self) -> tuple[int, ...]:
        """What a transcript does not begin with."""
        return (self.encode(" ")[0], self.transcript_end)

    def words(self, tokens: Sequence[int], language: str) -> list[tuple[str, list[int]]]:
        """Words and their tokens; of languages without spaces, the characters."""
        characters = list(self._characters(tokens))
        if language in WITHOUT_SPACES:
            return characters
        words: list[tuple[str, list[int]]] = []
        for text, parts in characters:
            is_special = parts[0] >= self.transcript_end
            is_punctuation = text.strip() in string.punctuation
            if is_special or text.startswith(" ") or is_punctuation or not words:
                words.append((text, parts))
            else:
                before, taken = words[-1]
                words[-1] = (before + text, taken + parts)
        return words

    def _characters(self, tokens: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
        """Runs of tokens that are whole characters."""
        whole = self.decode(tokens)
        pending: list[int] = []
        offset = 0
        for token in tokens:
            pending.append(token)
            text = self.decode(pending)
            place = text.find("\N{REPLACEMENT CHARACTER}")
            # A replacement character that the whole text has is of the text itself.
            if place < 0 or whole[offset + place : offset + place + 1] == text[place]:
                yield text, pending
                offset += len(text)
                pending = []


def _pieces(text: str) -> Iterator[str]:
    """Words as GPT-2 splits them: a contraction, or letters, digits or other with a space before."""
    place = 0
    while place < len(text):
        contraction = _CONTRACTIONS.match(text, place)
        end = contraction.end() if contraction else _piece_end(text, place)
        yield text[place:end]
        place = end


def _piece_end(text: str, place: int) -> int:
    start = place + 1 if text[place] == " " and place + 1 < len(text) else place
    kind = _kind(text[start])
    if kind == "space":
        start = place
        end = place
        while end < len(text) and _kind(text[end]) == "space":
            end += 1
        # The last space belongs to what follows it.
        return end if end == len(text) or end - start == 1 else end - 1
    end = start
    while end < len(text) and _kind(text[end]) == kind:
        end += 1
    return end


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    category = unicodedata.category(character)[0]
    return category if category in "LN" else "other"


def byte_level_tokens(texts: Sequence[str]) -> list[bytes]:
    """Tokens of a file that writes each byte as a printable character, as GPT-2's do."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table |= {chr(256 + place): byte for place, byte in enumerate(others)}
    return [bytes(table.get(letter, 0x3F) for letter in text) for text in texts]
