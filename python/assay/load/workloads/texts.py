"""English text of a wanted length: sentences of common words, the same for the same seed.

Random tokens, as some load generators send, are no test of speculation or of a prefix cache, and
a recorded corpus would have to be shipped. The words below are common: most are one token of every
byte-pair vocabulary, so that a length is nearly right without a tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from string import Formatter
from typing import Final

from assay.errors import InputError

CountTokens = Callable[[str], int]
"""How many tokens a text has."""

MAX_TOKENS: Final = 1 << 20
"""The longest text that is made."""

_PIECE: Final = re.compile(r"\w+|[^\w\s]")
_LETTERS_PER_TOKEN: Final = 9
"""A longer word counts as two tokens or more."""


def approximate_tokens(text: str) -> int:
    """How many tokens a text has, without a tokenizer: words and punctuation marks.

    >>> approximate_tokens("The harbor opens at nine, before the ferry leaves.")
    11
    """
    return sum(1 + (len(piece) - 1) // _LETTERS_PER_TOKEN for piece in _PIECE.findall(text))


class Writer:
    """Writes sentences, each different from the ones before it with near certainty."""

    def __init__(self, seed: str, count: CountTokens | None = None) -> None:
        """Begin a text; `count` is a tokenizer's count, else lengths are approximate."""
        self._random = Random(seed)
        self.count = count or approximate_tokens
        self._beginning = count("") if count else 0
        """Tokens that a tokenizer puts before every text."""

    def sentence(self) -> str:
        """A sentence with a full stop."""
        return self._sentence()[0]

    def _sentence(self) -> tuple[str, int]:
        """A sentence, and how many tokens it has after a space."""
        random = self._random.random
        pieces = _PIECES[int(random() * len(_PIECES))]
        chosen = [options[int(random() * len(options))] for options in pieces]
        text = "".join([piece for piece, _ in chosen])
        text = text[0].upper() + text[1:]
        if self.count is approximate_tokens:
            return text, sum([size for _, size in chosen])
        return text, self._after_a_space(text)

    def text(self, tokens: int) -> str:
        """Sentences that have `tokens` tokens together; the last one is cut to fit.

        >>> text = Writer("8").text(40)
        >>> approximate_tokens(text)
        40
        """
        if not 1 <= tokens <= MAX_TOKENS:
            raise InputError(f"length: expected from 1 to {MAX_TOKENS:,} tokens, got {tokens:,}")
        sentences: list[str] = []
        left = tokens - self._beginning
        while True:
            sentence, size = self._sentence()
            if size > left:
                break
            sentences.append(sentence)
            left -= size
        rest = cut(sentence, left, self._after_a_space)
        if not sentences or self._after_a_space(rest) <= left:
            sentences.append(rest)
        return " ".join(sentences)

    def _after_a_space(self, text: str) -> int:
        return self.count(f" {text}") - self._beginning


def cut(text: str, tokens: int, count: CountTokens) -> str:
    """The longest prefix of whole words with at most `tokens` tokens; one word at least."""
    words = text.split(" ")
    least, most = 1, len(words)
    # A word is about a token: the search goes where the answer is likely, and else halves.
    guess = min(most, max(1, tokens))
    while least < most:
        missing = tokens - count(" ".join(words[:guess]))
        if missing >= 0:
            least = guess
        else:
            most = guess - 1
        near = guess + missing
        guess = near if least < near <= most else (least + most + 1) // 2
    return " ".join(words[:least])


_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "noun": (
        "engineer", "garden", "river", "machine", "letter", "market", "teacher", "ship", "window",
        "bridge", "forest", "report", "student", "village", "train", "doctor", "library", "farmer",
        "station", "record", "artist", "factory", "mountain", "journal", "kitchen", "lake", "road",
        "museum", "office", "painter", "pilot", "planet", "school", "sailor", "tower", "valley",
        "writer", "camera", "castle", "city", "coast", "colony", "computer", "council", "desert",
        "driver", "island", "judge", "king", "laboratory", "lawyer", "merchant", "monument", "nurse",
        "ocean", "orchestra", "palace", "patient", "poet", "prison", "queen", "scientist", "soldier",
        "theater", "tree", "visitor", "worker", "camp", "church", "clock", "field", "gate", "hall",
    ),
    "quality": (
        "old", "quiet", "bright", "small", "distant", "careful", "heavy", "new", "narrow", "famous",
        "green", "broken", "early", "open", "simple", "deep", "warm", "young", "empty", "strange",
        "local", "modern", "public", "private", "slow", "quick", "round", "sharp", "soft", "strong",
        "tall", "thin", "wide", "wild", "wooden", "yellow", "brave", "clean", "common", "cold",
        "complex", "dark", "dry", "fair", "final", "foreign", "formal", "free", "fresh", "gentle",
    ),
    "action": (
        "describes", "follows", "reaches", "repairs", "measures", "visits", "remembers", "finds",
        "watches", "crosses", "changes", "studies", "protects", "collects", "leaves", "supports",
        "answers", "builds", "carries", "compares", "controls", "covers", "creates", "enjoys",
        "draws", "enters", "explains", "feeds", "fills", "guards", "helps", "holds", "joins",
        "keeps", "leads", "marks", "needs", "opens", "passes", "paints", "plans", "praises",
        "reads", "returns", "saves", "serves", "shares", "shows", "sells", "teaches", "trusts",
    ),
    "place": (
        "near the coast", "behind the house", "in the north", "at the border", "on the hill",
        "under the roof", "across the street", "in the capital", "by the water", "along the wall",
        "above the town", "inside the hall", "in the east", "at the corner", "on the other side",
        "between two fields", "beyond the trees", "in the old quarter", "at the edge of the map",
    ),
    "time": (
        "every morning", "after the war", "in the spring", "before noon", "since last year",
        "during the winter", "at the end of the week", "once a month", "in the evening",
        "for many years", "until the summer", "in recent times", "on the first day", "at night",
        "from time to time", "in the third year", "without any warning", "long before that",
    ),
    "number": (
        "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "fifteen",
        "twenty", "thirty", "forty", "fifty", "hundred", "several", "many",
    ),
    "reason": (
        "the price of wood has fallen", "nobody else knows the way", "the weather may change",
        "the law requires it", "the results were wrong", "people ask for it", "the road is closed",
        "there is little time left", "the first plan failed", "it costs less than before",
        "two teams must agree", "the water is too high", "the evidence is weak", "help came late",
        "the season was short", "the map was never finished", "both sides want peace",
    ),
}  # fmt: skip

_PATTERNS: Final = (
    "the {quality} {noun} {action} the {another} {other} {place}.",
    "{time}, the {noun} {action} a {quality} {other}.",
    "the {noun} of the {another} {other} {action} it because {reason}.",
    "{time}, {number} people came to the {quality} {noun} {place}.",
    "no {noun} {action} the {other} {time}, although {reason}.",
    "a {quality} {noun} and a {another} {other} stand {place}.",
    "when {reason}, the {noun} {action} the {quality} {other} again.",
    "only the {noun} {place} {action} what the {other} has lost.",
    "about {number} of them {time} saw the {noun}, and the {other} was {quality}.",
    "the {other} {place} is {quality}, but the {noun} {action} it {time}.",
    "if {reason}, then the {quality} {noun} {action} the {other}.",
    "{place}, the {noun} {action} one {another} {other} and {number} {quality} ones.",
)


def _pieces(pattern: str) -> tuple[tuple[tuple[str, int], ...], ...]:
    """The parts of a pattern in their order: the choices of each, with their tokens."""
    parts: list[tuple[tuple[str, int], ...]] = []
    for fixed, name, *_ in Formatter().parse(pattern):
        if fixed:
            parts.append(((fixed, approximate_tokens(fixed)),))
        if name:
            words = _WORDS[_SAME_WORDS.get(name, name)]
            parts.append(tuple((word, approximate_tokens(word)) for word in words))
    return tuple(parts)


_SAME_WORDS: Final = {"other": "noun", "another": "quality"}
_PIECES: Final = tuple(_pieces(pattern) for pattern in _PATTERNS)
