"""Words that an output must not contain, as sequences of tokens that may not be completed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.engine.loading.tokenizer import Tokenizer


def banned_sequences(words: Iterable[str], tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    """The tokens of each word, at the start of a text and after a space, as in vLLM."""
    spelled = (space + word.lstrip(" ") for word in words for space in ("", " "))
    encoded = (tuple(tokenizer.encode(text, add_special=False)) for text in spelled)
    return tuple(dict.fromkeys(tokens for tokens in encoded if tokens))


def completing(banned: Iterable[tuple[int, ...]], output: Sequence[int]) -> set[int]:
    """The tokens that would complete a banned sequence after this output.

    >>> completing([(5,), (1, 2), (3, 4)], [9, 1])
    {2, 5}
    """
    return {
        sequence[-1]
        for sequence in banned
        if len(sequence) == 1 or tuple(output[1 - len(sequence) :]) == sequence[:-1]
    }
