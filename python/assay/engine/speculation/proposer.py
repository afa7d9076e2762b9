"""What proposes draft tokens.

The model samples at every draft token in one step, and a draft token is accepted where the model
sampled the same one. A sample depends on the text, the seed and the position only, so outputs are
those of an engine that does not speculate, whatever the proposer is and at any temperature: it is
drafter-invariant (Daliri et al., 2024), which implies the exact distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from assay.engine.requests.request import Request


class DraftWanted(NamedTuple):
    """A request that decodes, and how many draft tokens it may have in the next step."""

    request: Request
    num_tokens: int


class Proposer(Protocol):
    """Proposes draft tokens for the decoding requests of a step."""

    @property
    def degradations(self) -> Sequence[str]:
        """What it does less well than configured, one line each."""

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        """The draft tokens of each request: as many as wanted, or fewer."""

    def observe(self, request: Request, sampled: Sequence[int]) -> None:
        """Tell what the model sampled after the last token and after each draft token.

        `request.draft_tokens` are those of the step, and its tokens do not hold the sampled ones
        yet. What follows a rejected draft token was sampled in the context of a wrong text.
        """

    def release(self, request: Request) -> None:
        """Drop what is kept for a request that ended or was preempted."""

    def close(self) -> None:
        """Free the memory of a draft model."""
