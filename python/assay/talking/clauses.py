"""Cuts a text that is still being written into what is said at once.

The first piece is a clause, so that speech begins early; each following one may be twice as long,
since it is computed while the one before is heard. A word with its phonemes, [word](/phonemes/), is
never cut: a part of it is neither.
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
_GIVEN: Final = re.compile(
    r"\[(?P<word>[^][\n]{0,64})\]\(/(?=[^][/\n]*[^][/\n\x00-\x7f])[^][/\n]{1,128}/\)"
)
"""A word with its phonemes, of which one is no letter of ASCII; others are links to a path."""
_BEGUN: Final = re.compile(r"\[[^][\n]{0,64}(?:\](?:\(?|\(/[^][/\n]{0,128}/?))?\Z")
"""The end of a text that may become one; what is longer or goes on in another way does not."""
_LETTER: Final = "X"
"""In the place of such words: nothing that a text is cut at."""
_MARKS: Final = re.compile(
    rf"(?P<given>{_GIVEN.pattern})"
    r"|[*#`_~]|^[ \t]{0,9}(?:[-+]|\d{1,3}[.)])[ \t]|\[|\](\([^)\n]{0,200}\))?",
    re.MULTILINE,
)
"""Words with their phonemes, which are said, and marks of Markdown, which are not."""
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
        while (end := self._end(_BEGUN.sub(_LETTER, self._rest))) is not None:
            yield from self._cut(end)

    def finish(self) -> Iterator[str]:
        """What is left at the end of the text."""
        while self._rest.strip():
            end = self._end(self._rest)
            yield from self._cut(len(self._rest) if end is None else end)

    def _cut(self, end: int) -> Iterator[str]:
        piece = _spoken(self._rest[:end])
        self._rest = self._rest[end:]
        if sum(letter.isalnum() for letter in piece) >= _LEAST:
            self._most = min(2 * self._most, _GREATEST)
            yield piece

    def _end(self, text: str) -> int | None:
        """Where the next piece of a text ends; None while that is not known."""
        least, most = self._most // 3, self._most
        # A word with its phonemes is as long as the word, and has no place to cut it at.
        given = list(_GIVEN.finditer(text))
        for match in given:
            if match.start() < most:
                most += len(match[0]) - len(match["word"])
        text = _GIVEN.sub(lambda match: _LETTER * len(match[0]), text)
        [first, *others] = [*sentences(text), ""]
        # The last word may be a part of one: a sentence has ended where another word follows.
        if others[:-1] and len(first) <= most:
            return text.index(first) + len(first)
        head = text[: most + 1]
        if self._most == _FIRST and (early := _early_end(head)) is not None:
            return early
        if len(text) <= most:
            return None
        for matches in (_PAUSE.finditer(head), _BEFORE.finditer(head)):
            ends = [match.end() for match in matches if match.end() >= least]
            if ends:
                return ends[-1]
        space = head.rfind(" ", least)
        if space > 0:
            return space + 1
        cut = (match for match in given if match.start() < most < match.end())
        return next((match.start() or match.end() for match in cut), most)


def _early_end(head: str) -> int | None:
    """The end of the first clause, if the text has one with something to say."""
    for match in _PAUSE.finditer(head):
        if sum(letter.isalnum() for letter in head[: match.end()]) >= _LEAST:
            return match.end()
    return None


def _spoken(text: str) -> str:
    return " ".join(_MARKS.sub(lambda match: match["given"] or " ", text).split())
