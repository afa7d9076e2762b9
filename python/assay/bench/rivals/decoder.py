"""The interface of programs that decode a language model, and our engine behind it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from assay.engine import Engine

Tokens = Sequence[int]
CONTEXT: Final = 1024


class Decoder(Protocol):
    """A loaded model; every continuation is greedy and ignores end-of-sequence tokens."""

    name: str

    def decode(self, prompt: Tokens, count: int) -> tuple[float, list[int]]:
        """Seconds per token after the first, and the tokens."""

    def prefill(self, prompt: Tokens) -> tuple[float, int]:
        """Seconds until the first token, and the token."""

    def decode_batch(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """Seconds for all continuations, batched where the program can, and their tokens."""


class AssayDecoder:
    """Our engine."""

    name = "assay"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def decode(self, prompt: Tokens, count: int) -> tuple[float, list[int]]:
        """Step one request, from its first token on."""
        tokens = self._start([prompt], count)
        while not tokens[0]:
            self._step(tokens)
        start, begun = time.perf_counter(), len(tokens[0])
        self._finish(tokens)
        return (time.perf_counter() - start) / (count - begun), tokens[0]

    def prefill(self, prompt: Tokens) -> tuple[float, int]:
        """Step one request to its first token."""
        start = time.perf_counter()
        tokens = self._start([prompt], 1)
        self._finish(tokens)
        return time.perf_counter() - start, tokens[0][0]

    def decode_batch(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """Step all requests in one batch."""
        start = time.perf_counter()
        tokens = self._start(prompts, count)
        self._finish(tokens)
        return time.perf_counter() - start, tokens

    def _start(self, prompts: Sequence[Tokens], count: int) -> list[list[int]]:
        from assay.engine import SamplingParams

        params = SamplingParams(max_tokens=count, temperature=0.0, ignore_eos=True)
        names = [self._engine.add_request(prompt, params) for prompt in prompts]
        self._index = {name: index for index, name in enumerate(names)}
        return [[] for _ in prompts]

    def _step(self, tokens: list[list[int]]) -> None:
        for output in self._engine.step():
            tokens[self._index[output.request_id]] += output.token_ids

    def _finish(self, tokens: list[list[int]]) -> None:
        while self._engine.has_work:
            self._step(tokens)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
