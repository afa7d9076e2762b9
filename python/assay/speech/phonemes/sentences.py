"""Sentences of a text, and parts of sentences that are too long to be said at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_END: Final = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|\n\s*\n")
_ABBREVIATIONS: Final = frozenset(
    {
        *("mr", "mrs", "ms", "dr", "prof", "gen", "col", "capt", "lt", "sgt", "rev", "hon", "sen"),
        *(
            "rep",
            "gov",
            "st",
            "mt",
            "ft",
            "jr",
            "sr",
            "vs",
            "no",
            "fig",
            "eq",
            "sec",
            "vol",
            "dept",
        ),
        *("approx", "e.g", "i.e", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept"),
        *("oct", "nov", "dec", "inc", "ltd", "co", "corp"),
    }
)
_PAUSES: Final = (";", ":", "—", ",", " ")
"""Where a long sentence is cut, the best first."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, each as soon as it ends."""
    start = 0
    for match in _END.finditer(text):
        if match[0].strip() and _goes_on(text[start : match.start()], text[match.end() :]):
            continue
        if sentence := text[start : match.end()].strip():
            yield sentence
        start = match.end()
    if sentence := text[start:].strip():
        yield sentence


def _goes_on(before: str, after: str) -> bool:
    """Whether a full stop is that of an abbreviation or an initial."""
    words = before.split()
    last = words[-1].lstrip("(\"'“‘") if words else ""
    if last.lower() in _ABBREVIATIONS:
        return True
    initial = len(last) == 1 and last.isalpha() and last != "I"
    following = after.lstrip()[:1]
    return (initial and following.isupper()) or following.islower()


def cut(
    text: str, longest: int, unbroken: Callable[[str], Iterable[tuple[int, int]]] | None = None
) -> Iterator[str]:
    """Parts of a text of at most this many characters, cut at pauses where there are any.

    `unbroken` says from where to where a text is not cut; such a stretch may be a longer part.
    """
    while len(text) > longest:
        stretches = sorted(unbroken(text)) if unbroken else []
        pauses = text
        for start, end in stretches:
            pauses = pauses[:start] + "_" * (end - start) + pauses[end:]
        at = longest
        for pause in _PAUSES:
            place = pauses.rfind(pause, longest // 3, longest)
            if place > 0:
                at = place + 1
                break
        at = next((start or end for start, end in stretches if start < at < end), at)
        yield text[:at].strip()
        text = text[at:].strip()
    if text:
        yield text
