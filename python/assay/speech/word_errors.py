"""The word error rate: how many words of a text were not heard as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[a-z0-9']+")


def words_of(text: str) -> list[str]:
    """Words in lower case, without punctuation.

    >>> words_of("Don't stop -- Mr. Smith!")
    ["don't", 'stop', 'mr', 'smith']
    """
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def edits(expected: Sequence[str], heard: Sequence[str]) -> int:
    """The least number of words to replace, insert or leave out (Levenshtein's distance)."""
    row = list(range(len(heard) + 1))
    for count, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], count
        for place, other in enumerate(heard, 1):
            diagonal, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, diagonal + (word != other)),
            )
    return row[-1]


def word_error_rate(expected: str, heard: str) -> float:
    """Edits by word of the expected text.

    >>> word_error_rate("the cat sat on the mat", "the cat sat on a mat, yes")
    0.3333333333333333
    """
    wanted = words_of(expected)
    return edits(wanted, words_of(heard)) / max(len(wanted), 1)
