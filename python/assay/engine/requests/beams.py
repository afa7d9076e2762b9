"""Beam search: the most likely continuations, found by keeping several at once.

Each round adds a token to every live beam; of all extensions the most likely ones live on, and those
that end are kept aside. Final scores are sums of log-probabilities over length to a power, as in
Wu et al., 2016 (arXiv:1609.08144), without its constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Beam(NamedTuple):
    """A continuation and the sum of its tokens' log-probabilities."""

    tokens: tuple[int, ...]
    logprob: float


class BeamSearch:
    """The search over one prompt."""

    def __init__(
        self,
        prompt: Sequence[int],
        width: int,
        ends: frozenset[int],
        max_tokens: int | None,
        length_penalty: float = 1.0,
    ) -> None:
        """Keep `width` beams until they end with one of `ends`, or have `max_tokens` tokens."""
        self._prompt = list(prompt)
        self._width = width
        self._ends = ends
        self._max_tokens = max_tokens
        self._length_penalty = length_penalty
        self.live = [Beam((), 0.0)]
        """Beams that go on."""
        self._finished: list[tuple[Beam, str]] = []

    def tokens_of(self, beam: Beam) -> list[int]:
        """The prompt and the beam."""
        return [*self._prompt, *beam.tokens]

    def expand(self, likely: Sequence[Sequence[tuple[int, float]]]) -> None:
        """Continue the live beams with their most likely tokens, twice the width for each."""
        extended = [
            Beam((*beam.tokens, token), beam.logprob + logprob)
            for beam, tokens in zip(self.live, likely, strict=True)
            for token, logprob in tokens
        ]
        extended.sort(key=lambda beam: -beam.logprob)
        self.live = []
        for beam in extended:
            if beam.tokens[-1] in self._ends:
                ended = Beam(beam.tokens[:-1], beam.logprob)
                self._finished.append((ended, "stop"))
            elif len(self.live) < self._width:
                self.live.append(beam)
        self._finished.sort(key=lambda each: -self._score(each[0]))
        del self._finished[self._width :]
        if self._max_tokens is not None and len(extended[0].tokens) >= self._max_tokens:
            self._finished += [(beam, "length") for beam in self.live]
            self.live = []
        elif len(self._finished) == self._width and self._cannot_improve():
            self.live = []

    def best(self, count: int) -> list[tuple[tuple[int, ...], str]]:
        """The best continuations, best first, and why each ended."""
        ranked = sorted(self._finished, key=lambda each: -self._score(each[0]))
        return [(beam.tokens, reason) for beam, reason in ranked[:count]]

    def _score(self, beam: Beam) -> float:
        return beam.logprob / float(max(len(beam.tokens), 1) ** self._length_penalty)

    def _cannot_improve(self) -> bool:
        """Whether no live beam could pass the worst that is kept, even if the rest were certain."""
        worst = min(self._score(beam) for beam, _ in self._finished)
        if self._length_penalty <= 0:
            return all(self._score(beam) <= worst for beam in self.live)
        if self._max_tokens is None:
            return False
        longest = float(self._max_tokens**self._length_penalty)
        return all(beam.logprob / longest <= worst for beam in self.live)
