"""What a request puts into a step."""

from __future__ import annotations

from dataclasses import dataclass

from assay.engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """A request's share of a step."""

    request: Request
    num_scheduled_tokens: int
    """Tokens to compute, draft tokens included."""
    num_samples: int
    """How many of its last rows are sampled: none until the step that ends its prefill."""
    block_copy: tuple[int, int] | None = None
    """A KV block to copy before the step (copy on write): source and destination."""
