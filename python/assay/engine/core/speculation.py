"""Speculative decoding by prompt lookup: draft tokens come from the request's own text.

Prompt lookup (Saxena, 2023; vLLM's n-gram proposer) needs no draft model. The model verifies all
draft tokens in one step and accepts those that it would have sampled itself: a rejected one costs
a row of the step, an accepted one saves a step.
"""

from __future__ import annotations

MAX_NGRAM = 3
"""Longest n-gram that is looked up; shorter ones are tried when it does not occur."""


class PromptLookup:
    """The position after the last occurrence of each n-gram.

    >>> lookup = PromptLookup([1, 2, 3, 4, 1, 2])
    >>> lookup.propose(3)
    [3, 4, 1]
    """

    __slots__ = ("_next_positions", "_tokens")

    def __init__(self, tokens: list[int]) -> None:
        """Index a text; the list is copied."""
        self._tokens: list[int] = []
        self._next_positions: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    def extend(self, tokens: list[int]) -> None:
        """Append tokens to the indexed text."""
        known = self._tokens
        positions = self._next_positions
        for token in tokens:
            end = len(known)
            # An n-gram is indexed once a token follows it.
            for length in range(1, min(MAX_NGRAM, end) + 1):
                positions[tuple(known[end - length :])] = end
            known.append(token)

    def propose(self, count: int) -> list[int]:
        """At most `count` draft tokens: those that followed the last n-gram before."""
        known = self._tokens
        for length in range(min(MAX_NGRAM, len(known)), 0, -1):
            position = self._next_positions.get(tuple(known[-length:]))
            if position is not None:
                return known[position : position + count]
        return []
