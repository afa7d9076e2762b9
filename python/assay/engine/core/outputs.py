"""What the engine gives back: chunks as they come, completions when they are done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from assay.errors import AssayError

FinishReason = Literal["stop", "length", "abort", "error"]


class Chunk(NamedTuple):
    """One token of an output, or its end.

    `text` is what the token adds to the text. It is empty while a character is incomplete or a
    stop text may be beginning, and what was held back comes with a later chunk.
    """

    text: str
    token_id: int | None
    """None where an output ends without a token: it was aborted, or it failed."""
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    """The most likely tokens with their log-probabilities, best first."""
    finish_reason: FinishReason | None = None


class Timing(NamedTuple):
    """Seconds between the events of a request's life."""

    queued: float
    """From being added to its first step."""
    first_token: float
    """From being added to its first token."""
    total: float
    """From being added to its end."""


class Summary(NamedTuple):
    """What a finished request took."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    """Prompt tokens whose keys and values were in the cache already."""
    preemptions: int
    """How often its blocks went to a more urgent request and were computed again."""
    timing: Timing


class StepOutput(NamedTuple):
    """What one step of the engine added to one request."""

    request_id: str
    chunks: tuple[Chunk, ...]
    summary: Summary | None = None
    """Counts and times, when the output has ended."""
    error: AssayError | None = None
    """Why it cannot go on, where the finish reason is an error."""

    @property
    def text(self) -> str:
        """The text that was added."""
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def token_ids(self) -> list[int]:
        """The tokens that were added."""
        return [chunk.token_id for chunk in self.chunks if chunk.token_id is not None]

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the output ended, if it did."""
        return self.chunks[-1].finish_reason if self.chunks else None

    @property
    def finished(self) -> bool:
        """Whether nothing more will come."""
        return self.finish_reason is not None


class Completion(NamedTuple):
    """A finished output."""

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose keys and values were in the cache already."""
    logprobs: tuple[Chunk, ...] | None
    """The chunks with log-probabilities, where they were asked for."""
    timing: Timing
    error: AssayError | None = None
    """Why it could not go on, where the finish reason is an error; the text is what came before."""

    @classmethod
    def of(cls, end: StepOutput, chunks: Sequence[Chunk]) -> Completion:
        """The completion that chunks make up whose last came with `end`."""
        summary, reason = end.summary, end.finish_reason
        assert summary is not None
        assert reason is not None
        reported = any(chunk.logprob is not None for chunk in chunks)
        return cls(
            request_id=end.request_id,
            text="".join(chunk.text for chunk in chunks),
            token_ids=tuple(chunk.token_id for chunk in chunks if chunk.token_id is not None),
            finish_reason=reason,
            prompt_tokens=summary.prompt_tokens,
            cached_tokens=summary.cached_tokens,
            logprobs=tuple(chunks) if reported else None,
            timing=summary.timing,
            error=end.error,
        )
