"""What becomes of a chosen token: text, or the end of the output."""

from __future__ import annotations

import time

from assay.engine.core.outputs import Chunk, FinishReason, Summary, Timing
from assay.engine.core.request import Request
from assay.errors import ModelError


def take(
    request: Request,
    token: int,
    logprob: float | None = None,
    top_logprobs: tuple[tuple[int, float], ...] = (),
) -> Chunk:
    """Add a token to a request and say what it adds to the output."""
    request.tokens.append(token)
    if request.lookup is not None:
        request.lookup.extend([token])
    if request.first_token is None:
        request.first_token = time.perf_counter()
    text = ""
    reason: FinishReason | None = None
    if token in request.end_tokens:
        reason = "stop"
    else:
        text = request.text.push(token)
        if request.text.stopped:
            reason = "stop"
        elif len(request.tokens) >= request.most_tokens:
            reason = "length"
    if reason is not None:
        text += _finish(request, reason)
    return Chunk(text, token, logprob, top_logprobs, reason)


def abort(request: Request) -> Chunk:
    """End a request without another token."""
    return Chunk(_finish(request, "abort"), None, finish_reason="abort")


def fail(request: Request) -> Chunk:
    """End a request whose next token has no score that is a number; others go on."""
    request.error = ModelError(
        f'request "{request.request_id}": expected scores that are numbers, got only NaN after '
        f"{len(request.tokens)} tokens",
        "the weights hold NaN, or a number overflowed: try another weight_format",
    )
    return Chunk(_finish(request, "error"), None, finish_reason="error")


def _finish(request: Request, reason: FinishReason) -> str:
    """Note the end and give the text that was held back."""
    request.finish_reason = reason
    request.finished = time.perf_counter()
    return request.text.finish()


def summary(request: Request) -> Summary:
    """The counts and times of a finished request."""
    end = request.finished or time.perf_counter()
    arrived = request.arrived
    return Summary(
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        cached_tokens=request.cached_tokens,
        preemptions=request.preemptions,
        timing=Timing(
            queued=(request.first_step or end) - arrived,
            first_token=(request.first_token or end) - arrived,
            total=end - arrived,
        ),
    )
