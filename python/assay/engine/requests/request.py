"""A request: its tokens, how many of them are computed, and how it ended."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from assay.engine.requests.bad_words import banned_sequences, completing
from assay.engine.requests.grammar import GrammarMatcher
from assay.engine.requests.output_text import OutputText
from assay.engine.requests.outputs import FinishReason
from assay.engine.requests.pending_token import PendingToken
from assay.engine.requests.sampling_params import SamplingParams
from assay.errors import AssayError
from assay.lazy_import import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.engine.loading.tokenizer import Tokenizer


_TOKEN_BITS: Final = 24
"""Bits of a token ID; what comes above them in a key of the prefix cache is the adapter."""


@dataclass(slots=True, eq=False)
class Request:
    """A prompt, its sampling parameters and the output so far."""

    request_id: str
    tokens: list[int]
    """The prompt, then the output."""
    num_prompt_tokens: int
    params: SamplingParams
    seed: int
    priority: int
    arrival_order: int
    """Requests are numbered in the order of their arrival."""
    max_total_tokens: int
    """Tokens, those of the prompt included, at which it ends."""
    stop_token_ids: frozenset[int]
    text: OutputText
    arrival_time: float
    sequence_id: int | None = None
    """Its sequence in the block manager; None while it waits."""
    num_computed_tokens: int = 0
    """Tokens whose keys and values are in the cache."""
    num_cached_tokens: int = 0
    """Prompt tokens that were in the prefix cache when it was first scheduled."""
    pending: PendingToken | None = None
    """The token after `tokens`, while only the device knows it."""
    first_scheduled_time: float | None = None
    first_token_time: float | None = None
    finish_time: float | None = None
    finish_reason: FinishReason | None = None
    error: AssayError | None = None
    """Why it failed, where the finish reason is an error."""
    draft_tokens: list[int] = field(default_factory=list)
    """Draft tokens that the scheduled step verifies."""
    num_preemptions: int = 0
    adapter: int = 0
    """The number of its LoRA adapter; 0 is none."""
    grammar: GrammarMatcher | None = None
    """Where its output is in the grammar that constrains it."""
    banned: tuple[tuple[int, ...], ...] = ()
    """The tokens of `bad_words`: none of these sequences may be completed."""
    is_plain: bool = True
    """Whether sampling needs no penalties, mask, bias or log-probabilities."""
    _output_counts: npt.NDArray[np.int32] | None = None
    _prompt_mask: npt.NDArray[np.uint8] | None = None
    _num_counted_tokens: int = 0

    @classmethod
    def of(
        cls,
        request_id: str,
        arrival_order: int,
        tokens: list[int],
        params: SamplingParams,
        tokenizer: Tokenizer,
        *,
        num_prompt_tokens: int,
        max_total_tokens: int,
        priority: int,
        grammar: GrammarMatcher | None = None,
        adapter: int = 0,
    ) -> Request:
        """A request that arrives now; tokens beyond its prompt are the output of its source."""
        eos_ids = () if params.ignore_eos else tokenizer.stop_ids
        detokenizer = tokenizer.detokenizer(skip_special=params.skip_special_tokens)
        text = OutputText(detokenizer, params.stop)
        for number, token in enumerate(tokens[num_prompt_tokens:], 1):
            text.push(token, watched=number >= params.min_tokens)
            if grammar is not None:
                grammar.accept(token)
        return cls(
            request_id=request_id,
            tokens=tokens,
            num_prompt_tokens=num_prompt_tokens,
            params=params,
            seed=_fresh_seed() if params.seed is None else params.seed,
            priority=priority,
            arrival_order=arrival_order,
            max_total_tokens=max_total_tokens,
            stop_token_ids=frozenset((*eos_ids, *params.stop_token_ids)),
            text=text,
            arrival_time=time.perf_counter(),
            grammar=grammar,
            adapter=adapter,
            banned=banned_sequences(params.bad_words, tokenizer) if params.bad_words else (),
            is_plain=not (
                params.penalized or params.biased or params.masked or params.logprobs is not None
            ),
        )

    @classmethod
    def forward_only(cls, tokens: list[int], adapter: int = 0) -> Request:
        """A request outside the scheduler: its tokens run through the model, nothing more."""
        return cls(
            request_id="forward_only",
            tokens=tokens,
            num_prompt_tokens=len(tokens),
            params=SamplingParams(temperature=0.0),
            seed=0,
            priority=0,
            arrival_order=0,
            max_total_tokens=len(tokens),
            stop_token_ids=frozenset(),
            text=OutputText(),
            arrival_time=0.0,
            adapter=adapter,
        )

    def cache_keys(self, tokens: list[int]) -> list[int]:
        """What the prefix cache knows tokens by: keys and values depend on the adapter, too."""
        if not self.adapter:
            return tokens
        first = self.adapter << _TOKEN_BITS
        return [first | token for token in tokens]

    @property
    def num_tokens(self) -> int:
        """Tokens of prompt and output, a pending one included."""
        return len(self.tokens) + (self.pending is not None)

    @property
    def num_output_tokens(self) -> int:
        """Tokens of the output, a pending one included."""
        return len(self.tokens) + (self.pending is not None) - self.num_prompt_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens whose keys and values are still to be computed."""
        return len(self.tokens) + (self.pending is not None) - self.num_computed_tokens

    @property
    def is_full(self) -> bool:
        """Whether it ends with the last of its tokens, pending or not."""
        num_tokens = len(self.tokens) + (self.pending is not None)
        return num_tokens >= self.max_total_tokens and num_tokens > self.num_prompt_tokens

    def token_counts(self, vocabulary: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """How often each token is in the output, and whether it is in the prompt."""
        if self._output_counts is None or self._prompt_mask is None:
            self._output_counts = np.zeros(vocabulary, np.int32)
            self._prompt_mask = np.zeros(vocabulary, np.uint8)
            self._prompt_mask[self.tokens[: self.num_prompt_tokens]] = 1
            self._num_counted_tokens = self.num_prompt_tokens
        for token in self.tokens[self._num_counted_tokens :]:
            self._output_counts[token] += 1
        self._num_counted_tokens = len(self.tokens)
        return self._output_counts, self._prompt_mask

    def set_draft(self, draft: list[int]) -> None:
        """Draft these tokens, up to the first that the grammar does not allow."""
        if draft and self.grammar is not None:
            draft = draft[: self.grammar.count_allowed(draft)]
        self.draft_tokens = draft

    def needs_only_grammar(self, num_output_tokens: int) -> bool:
        """Whether its grammar alone masks the one token that follows so many of the output."""
        return (
            self.grammar is not None
            and not self.banned
            and not self.draft_tokens
            and num_output_tokens >= self.params.min_tokens
        )

    def fill_masks(self, rows: npt.NDArray[np.int32], num_output_tokens: int) -> None:
        """Set the bits of tokens that may follow so many of the output, and each draft token."""
        if self.grammar is None:
            rows[:] = -1
        else:
            self.grammar.fill_masks(rows, self.draft_tokens)
        if self.banned or num_output_tokens < self.params.min_tokens:
            self._mask_endings(rows, num_output_tokens)

    def _mask_endings(self, rows: npt.NDArray[np.int32], first: int) -> None:
        """Mask the last token of banned sequences, and what would end the output too early."""
        output = [*self.tokens[self.num_prompt_tokens :], *self.draft_tokens]
        for number, row in enumerate(rows, first):
            masked = completing(self.banned, output[:number])
            if number < self.params.min_tokens:
                masked |= self.stop_token_ids
            kept = row.copy()
            words = row.view(np.uint32)
            for token in masked:
                words[token // 32] &= ~np.uint32(1 << token % 32)
            if masked and not row.any():
                # A grammar that allows nothing else comes first.
                row[:] = kept


def _fresh_seed() -> int:
    return int.from_bytes(os.urandom(8)) >> 1
