"""Converts sampled tokens to output: detokenized text, stop conditions, the finished request."""

from __future__ import annotations

import time

from assay.engine.requests.outputs import Chunk, FinishReason, Summary, Timing
from assay.engine.requests.request import Request
from assay.errors import AssayError, ModelError


def append_token(
    request: Request,
    token: int,
    logprob: float | None = None,
    top_logprobs: tuple[tuple[int, float], ...] = (),
) -> Chunk:
    """Append a sampled token to a request; returns what it adds to the output."""
    request.tokens.append(token)
    if request.first_token_time is None:
        request.first_token_time = time.perf_counter()
    text = ""
    reason: FinishReason | None = None
    if token in request.stop_token_ids:
        reason = "stop"
    elif request.grammar is None and not request.text.can_stop:
        # Most requests: only their length ends them.
        text = request.text.push(token)
        if len(request.tokens) >= request.max_total_tokens:
            reason = "length"
    else:
        params, count = request.params, len(request.tokens) - request.num_prompt_tokens
        text = request.text.push(token, watched=count >= params.min_tokens)
        if request.text.stopped or _completes_grammar(request, token):
            reason = "stop"
        elif len(request.tokens) >= request.max_total_tokens:
            reason = "length"
    if reason is not None:
        text += _finish(request, reason)
    return Chunk(text, token, logprob, top_logprobs, reason)


def abort(request: Request) -> Chunk:
    """Finish a request without another token."""
    return Chunk(_finish(request, "abort"), None, finish_reason="abort")


def fail_grammar(request: Request) -> Chunk | None:
    """Finish a request whose grammar cannot go on; None if it can."""
    if request.grammar is None or request.grammar.error is None:
        return None
    return _fail(request, request.grammar.error)


def fail(request: Request) -> Chunk:
    """Finish a request whose logits are NaN; other requests continue."""
    error = ModelError(
        f'request "{request.request_id}": expected logits that are numbers, got only NaN after '
        f"{len(request.tokens)} tokens",
        "the weights hold NaN, or a number overflowed: try another weight_format",
    )
    return _fail(request, error)


def _fail(request: Request, error: AssayError) -> Chunk:
    request.error = error
    return Chunk(_finish(request, "error"), None, finish_reason="error")


def summary(request: Request) -> Summary:
    """The counts and times of a finished request."""
    end = request.finish_time or time.perf_counter()
    arrival = request.arrival_time
    return Summary(
        prompt_tokens=request.num_prompt_tokens,
        output_tokens=request.num_output_tokens,
        cached_tokens=request.num_cached_tokens,
        preemptions=request.num_preemptions,
        timing=Timing(
            queued=(request.first_scheduled_time or end) - arrival,
            first_token=(request.first_token_time or end) - arrival,
            total=end - arrival,
        ),
    )


def _completes_grammar(request: Request, token: int) -> bool:
    """Advance the request's grammar, if it has one; whether nothing more may follow."""
    if request.grammar is None:
        return False
    request.grammar.accept(token)
    return request.grammar.finished


def _finish(request: Request, reason: FinishReason) -> str:
    """Mark a request as finished; returns the text that was held back."""
    request.finish_reason = reason
    request.finish_time = time.perf_counter()
    return request.text.finish()
