"""A request on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay.engine.outputs import Chunk, FinishReason
from assay.engine.params import SamplingParams
from assay.engine.speculation import PromptLookup
from assay.engine.stopping import StopTexts


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
    text: Any
    """Turns tokens into text, keeping incomplete characters back."""
    stops: StopTexts
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
    lookup: PromptLookup | None = None
    drafts: list[int] = field(default_factory=list)
    """Guessed tokens that the step under way checks."""
    chunks: list[Chunk] = field(default_factory=list)
    """The output, kept for requests whose caller wants it whole."""
    preemptions: int = 0

    @property
    def output_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def remaining(self) -> int:
        """Tokens whose keys and values are still to be computed."""
        return len(self.tokens) - self.computed
