"""What a request puts into a step, and what all of them together put into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.engine.requests.request import Request


class ScheduledSequence(NamedTuple):
    """A request's share of a step."""

    request: Request
    num_scheduled_tokens: int
    """Tokens to compute, draft tokens included."""
    num_samples: int
    """How many of its last rows are sampled: none until the step that ends its prefill."""
    block_copy: tuple[int, int] | None = None
    """A KV block to copy before the step (copy on write): source and destination."""


class StepTotals(NamedTuple):
    """The counts of a step, and what its requests need beyond their sampling parameters."""

    num_tokens: int
    num_samples: int
    longest_context: int
    """Tokens of the longest sequence after the step."""
    decode_only: bool
    """Whether every sequence has one new token."""
    adapted: bool
    """Whether any sequence has a LoRA adapter."""
    is_plain: bool
    """Whether no request has penalties, masks, biases or log-probabilities."""
    continues: bool
    """Whether any sequence was part of an earlier step."""


def totals_of(scheduled: Sequence[ScheduledSequence]) -> StepTotals:
    """Count a step in one pass: it may have hundreds of sequences."""
    num_tokens = num_samples = longest = 0
    is_plain, adapted, continues = True, False, False
    for request, count, samples, _ in scheduled:
        num_tokens += count
        num_samples += samples
        end = request.num_computed_tokens + count
        if end > longest:
            longest = end
        if end > count:
            continues = True
        if not request.is_plain:
            is_plain = False
        if request.adapter:
            adapted = True
    decode_only = num_tokens == len(scheduled)
    return StepTotals(num_tokens, num_samples, longest, decode_only, adapted, is_plain, continues)
