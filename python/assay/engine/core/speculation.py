"""Guessing the next tokens by looking for the last ones earlier in the same text.

A guess costs little where it is wrong and saves a step for each token where it is right: the
model computes all guessed tokens in one step, and keeps those that it would have chosen itself.
"""

from __future__ import annotations

LONGEST = 3
"""Tokens that are looked for; shorter runs are tried when they are not found."""


class PromptLookup:
    """Where each run of tokens was last followed by another token.

    >>> lookup = PromptLookup([1, 2, 3, 4, 1, 2])
    >>> lookup.guess(3)
    [3, 4, 1]
    """

    __slots__ = ("_places", "_tokens")

    def __init__(self, tokens: list[int]) -> None:
        """Begin with a text; the list is the request's own and may grow."""
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    def extend(self, tokens: list[int]) -> None:
        """Note tokens that were added."""
        known = self._tokens
        places = self._places
        for token in tokens:
            end = len(known)
            # Runs are noted when something follows them.
            for length in range(1, min(LONGEST, end) + 1):
                places[tuple(known[end - length :])] = end
            known.append(token)

    def guess(self, count: int) -> list[int]:
        """What followed the last tokens when they were there before; at most `count` tokens."""
        known = self._tokens
        for length in range(min(LONGEST, len(known)), 0, -1):
            place = self._places.get(tuple(known[-length:]))
            if place is not None:
                return known[place : place + count]
        return []
