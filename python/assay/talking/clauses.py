"""Cuts a text that is still being written into what is said at once.

The first piece is a clause, so that speech begins early; each following one may be twice as long,
since it is computed while the one before is heard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from assay.speech.phonemes.sentences import sentences

_FIRST: Final = 24
_GREATEST: Final = 256
_LEAST: Final = 2
"""Characters of the first piece, of any piece at most, and letters of one at least."""
_MARKS: Final = re.compile(
    r"[*#`_~]|^[ \t]{0,9}(?:[-+]|\d{1,3}[.)])[ \t]|\[|\](\([^)\n]{0,200}\))?", re.MULTILINE
)
"""Marks of Markdown, which are not said."""
_PAUSE: Final = re.compile(r"[,;:\u2014](?=\s)|\s-\s")
_BEFORE: Final = re.compile(
    r"\s(?=(?:and|or|but|because|which|who|when|where|while|if|so|to|of|in|on|at|for|from|with|by|as|is|are)\s)"
)
"""A phrase begins with one of these words."""


class Clauses:
    """Pieces of a text, each as soon as it is complete."""

    def __init__(self) -> None:
        """Nothing is written yet."""
        self._rest = ""
        self._most = _FIRST

    def push(self, text: str) -> Iterator[str]:
        """The pieces that more text completes."""
        self._rest += text
        while (end := self._end()) is not None:
            yield from self._cut(end)

    def finish(self) -> Iterator[str]:
        """What is left at the end of the text."""
        while self._rest.strip():
            end = self._end()
            yield from self._cut(len(self._rest) if end is None else end)

    def _cut(self, end: int) -> Iterator[str]:
        piece = _spoken(self._rest[:end])
        self._rest = self._rest[end:]
        if sum(letter.isalnum() for letter in piece) >= _LEAST:
            self._most = min(2 * self._most, _GREATEST)
            yield piece

    def _end(self) -> int | None:
        """Where the next piece ends; None while that is not known."""
        text, most = self._rest, self._most
        [first, *others] = [*sentences(text), ""]
        # The last word may be a part of one: a sentence has ended where another word follows.
        if others[:-1] and len(first) <= most:
            return text.index(first) + len(first)
        if most == _FIRST and (early := self._early_end()) is not None:
            return early
        if len(text) <= most:
            return None
        head = text[: most + 1]
        for matches in (_PAUSE.finditer(head), _BEFORE.finditer(head)):
            ends = [match.end() for match in matches if match.end() >= most // 3]
            if ends:
                return ends[-1]
        space = head.rfind(" ", most // 3)
        return space + 1 if space > 0 else most

    def _early_end(self) -> int | None:
        """The end of the first clause, if the text has one with something to say."""
        for match in _PAUSE.finditer(self._rest[: _FIRST + 1]):
            if sum(letter.isalnum() for letter in self._rest[: match.end()]) >= _LEAST:
                return match.end()
        return None


def _spoken(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split())
