"""Jacobi decoding with an n-gram pool, after lookahead decoding: no draft model, no training.

Jacobi decoding (Santilli et al., 2023) guesses the next tokens, samples after all of them in one
step, and takes the samples as the next guesses: those after the first wrong guess are not wasted.
Lookahead decoding (Fu et al., 2024) keeps the n-grams that appear in these iterations in a pool
and verifies the ones that begin with the last token. Here both run in the rows of one draft: an
n-gram of the pool first, then the guesses of the last iteration. The window of several guesses for
each position is left out, since it needs an attention mask of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from assay.engine.requests.request import Request
from assay.engine.speculation.proposer import DraftWanted

NGRAM: Final = 4
"""Tokens of an n-gram of the pool, the first of which is its key."""

MAX_KEYS: Final = 4096
"""Keys of one request's pool; the least recently seen one is dropped first."""


class NgramPool:
    """What followed each token last, in the text or in a Jacobi iteration.

    >>> pool = NgramPool()
    >>> pool.add([7, 8, 9])
    >>> pool.chain(7, 5)
    [8, 9]
    """

    __slots__ = ("_following",)

    def __init__(self) -> None:
        """Start empty."""
        self._following: OrderedDict[int, tuple[int, ...]] = OrderedDict()

    def add(self, tokens: Sequence[int]) -> None:
        """Keep the n-grams of a run of tokens."""
        following = self._following
        for index in range(len(tokens) - 1):
            key = tokens[index]
            following[key] = tuple(tokens[index + 1 : index + NGRAM])
            following.move_to_end(key)
        while len(following) > MAX_KEYS:
            following.popitem(last=False)

    def suggest(self, token: int, following: int) -> None:
        """Keep a sample that followed a token in a wrong text, unless a better n-gram is known."""
        self._following.setdefault(token, (following,))

    def chain(self, token: int, count: int) -> list[int]:
        """At most `count` tokens: the n-gram after a token, then the one after its last, and so on."""
        found: list[int] = []
        while len(found) < count and (more := self._following.get(token)):
            found += more
            token = found[-1]
        return found[:count]


class _Trajectory:
    """The Jacobi iteration of one request."""

    __slots__ = ("guesses", "num_seen", "pool")

    def __init__(self) -> None:
        self.pool = NgramPool()
        self.guesses: list[int] = []
        """Samples of the last step beyond what it accepted, by position."""
        self.num_seen = 0
        """Tokens of the text whose n-grams are in the pool."""


class LookaheadProposer:
    """Jacobi iterations of each request, and the pool of their n-grams."""

    def __init__(self) -> None:
        """Start without requests."""
        self._trajectories: dict[str, _Trajectory] = {}

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        """An n-gram of the pool after the last token, then guesses of the last iteration."""
        drafts = []
        for request, count in wanted:
            trajectory = self._trajectories.setdefault(request.request_id, _Trajectory())
            tokens, pool = request.tokens, trajectory.pool
            pool.add(tokens[max(trajectory.num_seen - NGRAM, 0) :])
            trajectory.num_seen = len(tokens)
            draft = pool.chain(tokens[-1], count)
            draft += trajectory.guesses[len(draft) : count]
            # An iteration begins with any tokens, and different ones find more n-grams.
            draft += [
                tokens[(31 * len(tokens) + 17 * row) % len(tokens)]
                for row in range(len(draft), count)
            ]
            drafts.append(draft)
        return drafts

    def observe(self, request: Request, sampled: Sequence[int]) -> None:
        """Keep the samples after the first wrong guess: guesses, and n-grams of the pool."""
        trajectory = self._trajectories.get(request.request_id)
        if trajectory is None or not request.draft_tokens:
            return
        draft = request.draft_tokens
        accepted = 0
        while accepted < len(draft) and draft[accepted] == sampled[accepted]:
            accepted += 1
        # sampled[accepted] is the new last token; what was sampled after it guesses what follows.
        trajectory.guesses = list(sampled[accepted + 1 :])
        for guess, sample in zip(draft[accepted:], sampled[accepted + 1 :], strict=False):
            trajectory.pool.suggest(guess, sample)

    def release(self, request: Request) -> None:
        """Drop the iteration of a request."""
        self._trajectories.pop(request.request_id, None)

    def close(self) -> None:
        """Nothing to free."""

    @property
    def degradations(self) -> Sequence[str]:
        """None: it needs nothing of the device."""
        return ()
