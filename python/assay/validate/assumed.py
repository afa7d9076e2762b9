"""Inputs that a case leaves open, counted from the notes on its defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ASSUMED = re.compile(r"\bnot stated\b|^undated\b|\bno [a-z -]{1,40} is (?:stated|named)\b")


def count_assumed(notes: Iterable[str]) -> int:
    """How many of the notes say that a default stands for something that is not stated.

    >>> count_assumed(["network not stated: the usual one", "shapes of llama from the catalog"])
    1
    """
    return sum(_ASSUMED.search(note) is not None for note in dict.fromkeys(notes))
