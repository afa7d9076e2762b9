"""Prompt lookup (vLLM's method `ngram`): draft tokens come from the request's own text.

It needs no draft model (Saxena, 2023): where the last n-gram occurred before, what followed it then
is proposed.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.engine.requests.request import Request
from assay.engine.speculation.proposer import DraftWanted

MAX_NGRAM = 3
"""Longest n-gram that is looked up; shorter ones are tried when it does not occur."""


class PromptLookup:
    """The position after the last occurrence of each n-gram.

    >>> lookup = PromptLookup([1, 2, 3, 4, 1, 2])
    >>> lookup.propose(3)
    [3, 4, 1]
    """

    __slots__ = ("_next_positions", "_tokens")

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        """Index a text; it is copied."""
        self._tokens: list[int] = []
        self._next_positions: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
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


class NgramProposer:
    """Prompt lookup in the text of each request."""

    def __init__(self) -> None:
        """Start without requests; a text is indexed when a draft is first wanted."""
        self._lookups: dict[str, PromptLookup] = {}

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        """Look up the last n-gram of each text."""
        drafts = []
        for request, count in wanted:
            lookup = self._lookups.setdefault(request.request_id, PromptLookup())
            lookup.extend(request.tokens[len(lookup) :])
            drafts.append(lookup.propose(count))
        return drafts

    def observe(self, request: Request, sampled: Sequence[int]) -> None:
        """Nothing to learn: accepted tokens are in the text."""

    def release(self, request: Request) -> None:
        """Drop the index of a text."""
        self._lookups.pop(request.request_id, None)

    def close(self) -> None:
        """Nothing to free."""

    @property
    def degradations(self) -> Sequence[str]:
        """None: it needs nothing of the device."""
        return ()
