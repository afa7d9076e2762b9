"""What a text looks for, first: entries by how well names and meanings match its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

Entry = TypeVar("Entry")

_WORD: Final = re.compile(r"[^\W_]+")
_SMALL: Final = frozenset(
    {"a", "an", "and", "at", "by", "for", "from", "in", "is", "it", "of", "on", "or", "per", "the"}
)
"""Words that any meaning may have: they count in phrases alone."""
_WHOLE_IN_NAME, _START_IN_NAME, _WHOLE_IN_MEANING = 4.0, 2.5, 2.0
_PHRASE, _PHRASE_AT_START = 2.0, 4.0
_IS_TARGET: Final = 1.5
_MEANING_WORD: Final = 0.05
"""What each further word of a meaning takes off: the shorter one is about the text alone."""


def ranked(
    entries: Sequence[Entry],
    text: str | None,
    words_of: Callable[[Entry], tuple[str, str]],
    is_target: Callable[[Entry], bool] = lambda entry: False,
) -> list[Entry]:
    """Entries in the order of how well name and meaning match a text; as they are without one.

    >>> ranked(["passed_share: cost of a token", "cost.per_token: cost per token"], "cost per token",
    ...     lambda entry: tuple(entry.split(": ")))[0]
    'cost.per_token: cost per token'
    """
    asked = _words(text or "")
    if not asked:
        return list(entries)

    def relevance(entry: Entry) -> float:
        name, meaning = words_of(entry)
        return _relevance(asked, name, meaning) + _IS_TARGET * is_target(entry)

    return sorted(entries, key=relevance, reverse=True)


def _relevance(asked: Sequence[str], name: str, meaning: str) -> float:
    in_name, in_meaning = _words(name), _words(meaning)
    of_words = sum(_of_word(word, in_name, in_meaning) for word in asked if word not in _SMALL)
    of_phrases = _of_phrase(asked, in_name[::-1], reverse=True) + _of_phrase(asked, in_meaning)
    return of_words + of_phrases - _MEANING_WORD * (len(in_name) + len(in_meaning))


def _of_word(word: str, in_name: Sequence[str], in_meaning: Sequence[str]) -> float:
    if _is_among(word, in_name):
        return _WHOLE_IN_NAME
    if any(other.startswith(word) for other in in_name):
        return _START_IN_NAME
    return _WHOLE_IN_MEANING if _is_among(word, in_meaning) else 0.0


def _is_among(word: str, others: Sequence[str]) -> bool:
    """Whether a word is one of others, in the singular or the plural."""
    return any(other in (word, f"{word}s") or word == f"{other}s" for other in others)


def _of_phrase(asked: Sequence[str], words: Sequence[str], *, reverse: bool = False) -> float:
    """Whether the words follow each other in a meaning, best at its start; in a name, at its end."""
    wanted = list(asked[::-1] if reverse else asked)
    if len(wanted) < 2:
        return 0.0
    starts = [
        at
        for at in range(len(words) - len(wanted) + 1)
        if list(words[at:])[: len(wanted)] == wanted
    ]
    if not starts:
        return 0.0
    return _PHRASE_AT_START if starts[0] == 0 else _PHRASE


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
