"""The outputs of the engine: chunks of a stream, and finished completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from assay.errors import AssayError

FinishReason = Literal["stop", "length", "abort", "error"]


class Chunk(NamedTuple):
    """One token of an output, or its end.

    `text` is what the token adds to the text. It is empty while a character is incomplete or a
    stop string may be starting; the text held back comes with a later chunk.
    """

    text: str
    token_id: int | None
    """None where an output ends without a token: aborted or failed."""
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    """The most likely tokens with their log-probabilities, best first."""
    finish_reason: FinishReason | None = None


class Timing(NamedTuple):
    """Latencies of a request, in seconds."""

    queued: float
    """From arrival to the first step."""
    first_token: float
    """From arrival to the first token (TTFT)."""
    total: float
    """From arrival to the end."""


class Summary(NamedTuple):
    """Counts and latencies of a finished request."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    """Prompt tokens found in the prefix cache."""
    preemptions: int
    """How often it was preempted and recomputed."""
    timing: Timing


class StepOutput(NamedTuple):
    """What one step of the engine added to one request."""

    request_id: str
    chunks: tuple[Chunk, ...]
    summary: Summary | None = None
    """Counts and latencies, when the request has finished."""
    error: AssayError | None = None
    """Why it failed, where the finish reason is an error."""

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
        """Whether the request has finished."""
        return self.finish_reason is not None


class Completion(NamedTuple):
    """A finished output."""

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens found in the prefix cache."""
    logprobs: tuple[Chunk, ...] | None
    """The chunks with log-probabilities, where the request asked for them."""
    timing: Timing
    error: AssayError | None = None
    """Why it failed, where the finish reason is an error; the text is what came before."""

    @classmethod
    def of(cls, outputs: Sequence[StepOutput]) -> Completion:
        """The completion of all outputs of a request, of which the last finished it."""
        end = outputs[-1]
        chunks = [chunk for output in outputs for chunk in output.chunks]
        summary, reason = end.summary, end.finish_reason
        assert summary is not None
        assert reason is not None
        has_logprobs = any(chunk.logprob is not None for chunk in chunks)
        return cls(
            request_id=end.request_id,
            text="".join(chunk.text for chunk in chunks),
            token_ids=tuple(chunk.token_id for chunk in chunks if chunk.token_id is not None),
            finish_reason=reason,
            prompt_tokens=summary.prompt_tokens,
            cached_tokens=summary.cached_tokens,
            logprobs=tuple(chunks) if has_logprobs else None,
            timing=summary.timing,
            error=end.error,
        )
