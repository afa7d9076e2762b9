"""A request on its way through the engine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.engine.core.output_text import OutputText
from assay.engine.core.outputs import FinishReason
from assay.engine.core.sampling_params import SamplingParams
from assay.engine.core.speculation import PromptLookup
from assay.errors import AssayError
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from assay.engine.loading.tokenizer import Tokenizer
else:
    np = LazyModule("numpy", globals(), "np")


@dataclass(slots=True, eq=False)
class Request:
    """A request: its tokens, how far they are computed, and what became of it."""

    request_id: str
    tokens: list[int]
    """The prompt, then the output."""
    prompt_tokens: int
    params: SamplingParams
    seed: int
    priority: int
    number: int
    """Requests are numbered in the order of their arrival."""
    most_tokens: int
    """Tokens, those of the prompt included, at which it ends."""
    end_tokens: frozenset[int]
    text: OutputText
    arrived: float
    sequence: int | None = None
    """Its blocks in the KV cache; None while it waits."""
    computed: int = 0
    """Tokens whose keys and values are in the cache."""
    cached_tokens: int = 0
    """Prompt tokens that were in the cache when it was first admitted."""
    first_step: float | None = None
    first_token: float | None = None
    finished: float | None = None
    finish_reason: FinishReason | None = None
    error: AssayError | None = None
    """Why it cannot go on."""
    lookup: PromptLookup | None = None
    drafts: list[int] = field(default_factory=list)
    """Guessed tokens that the step under way checks."""
    preemptions: int = 0
    _counts: npt.NDArray[np.int32] | None = None
    _prompted: npt.NDArray[np.uint8] | None = None
    _counted: int = 0

    @classmethod
    def of(
        cls,
        request_id: str,
        number: int,
        tokens: list[int],
        params: SamplingParams,
        tokenizer: Tokenizer,
        *,
        prompt_tokens: int,
        most_tokens: int,
        priority: int,
    ) -> Request:
        """A request that arrives now; tokens beyond its prompt were said by another one."""
        ends = () if params.ignore_eos else tokenizer.stop_ids
        text = OutputText(tokenizer.detokenizer(), params.stop)
        for token in tokens[prompt_tokens:]:
            text.push(token)
        return cls(
            request_id=request_id,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            params=params,
            seed=_fresh_seed() if params.seed is None else params.seed,
            priority=priority,
            number=number,
            most_tokens=most_tokens,
            end_tokens=frozenset((*ends, *params.stop_token_ids)),
            text=text,
            arrived=time.perf_counter(),
        )

    @classmethod
    def probe(cls, tokens: list[int]) -> Request:
        """A request that only asks what the model makes of some tokens."""
        return cls(
            request_id="probe",
            tokens=tokens,
            prompt_tokens=len(tokens),
            params=SamplingParams(temperature=0.0),
            seed=0,
            priority=0,
            number=0,
            most_tokens=len(tokens),
            end_tokens=frozenset(),
            text=OutputText(),
            arrived=0.0,
        )

    @property
    def output_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def remaining(self) -> int:
        """Tokens whose keys and values are still to be computed."""
        return len(self.tokens) - self.computed

    @property
    def is_full(self) -> bool:
        """Whether it ends with the last of its tokens, known or on its way."""
        return len(self.tokens) >= self.most_tokens and self.output_tokens > 0

    def token_counts(self, vocabulary: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """How often each token is in the output, and whether it is in the prompt."""
        if self._counts is None or self._prompted is None:
            self._counts = np.zeros(vocabulary, np.int32)
            self._prompted = np.zeros(vocabulary, np.uint8)
            self._prompted[self.tokens[: self.prompt_tokens]] = 1
            self._counted = self.prompt_tokens
        for token in self.tokens[self._counted :]:
            self._counts[token] += 1
        self._counted = len(self.tokens)
        return self._counts, self._prompted

    def guess_ahead(self, wanted: bool) -> None:
        """Begin or cease to guess the next tokens from those so far."""
        # Penalties change logits with each token of the output, guessed ones included.
        if not wanted or self.params.penalized:
            self.lookup = None
        elif self.lookup is None:
            self.lookup = PromptLookup(self.tokens)


def _fresh_seed() -> int:
    return int.from_bytes(os.urandom(8)) >> 1
