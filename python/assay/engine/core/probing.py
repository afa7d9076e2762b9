"""Forward passes outside the scheduler: logits and embedding of a text, profile of a decode step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from assay import ops
from assay.engine.core import prompts
from assay.engine.core.engine_state import EngineState
from assay.engine.core.logprobs import TopLogprobs, log_softmax, top_logprobs
from assay.engine.requests.request import Request
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import transfer
from assay.runtime.graphs import NodeTime

if TYPE_CHECKING:
    import numpy.typing as npt


class PromptLogprobs(NamedTuple):
    """How likely each token of a text was, given those before it."""

    logprobs: list[float | None]
    """The log-probability of each token; None for the first, before which there is nothing."""
    top: list[TopLogprobs]
    """The most likely tokens at each position, best first; none for the first."""
    ranks: list[int | None]
    """The place of each token among all, from 1 on; None for the first."""


def logits(state: EngineState, tokens: list[int], adapter: int = 0) -> npt.NDArray[np.float32]:
    """The logits after each token, without the prefix cache: tokens by vocabulary."""
    chunk = min(state.runner.workspace.max_shape.num_samples, state.settings.token_budget)
    passes = _passes(state, tokens, chunk, sampled=True, adapter=adapter)
    return np.concatenate([state.runner.logits(count) for _, count in passes])


def score(
    state: EngineState, tokens: list[int], count_top: int, adapter: int = 0
) -> PromptLogprobs:
    """The log-probability of each token of a text, with `count_top` alternatives."""
    chunk = min(state.runner.workspace.max_shape.num_samples, state.settings.token_budget)
    logprobs: list[float | None] = [None]
    top: list[TopLogprobs] = [()]
    ranks: list[int | None] = [None]
    for first, count in _passes(state, tokens, chunk, sampled=True, adapter=adapter):
        rows = state.runner.logits(count)
        following = tokens[first + 1 : first + count + 1]
        exact = log_softmax(rows)
        for row, token in zip(exact, following, strict=False):
            logprobs.append(float(row[token]))
            ranks.append(1 + int((row > row[token]).sum()))
        top += (
            top_logprobs(rows, count_top)[: len(following)] if count_top else [()] * len(following)
        )
    return PromptLogprobs(logprobs, top, ranks)


def last_hidden_state(
    state: EngineState, tokens: list[int], adapter: int = 0
) -> npt.NDArray[np.float32]:
    """The last token's hidden state after the final norm."""
    last = 0
    budget = state.settings.token_budget
    for _, count in _passes(state, tokens, budget, sampled=False, adapter=adapter):
        last = count - 1
    row, norm = state.runner.hidden_row(last), state.model.norm
    if norm.is_layer_norm:
        normed = ops.layer_norm(row, norm.weight, norm.bias, norm.epsilon)
    else:
        normed = ops.rms_norm(row, norm.weight, norm.epsilon)
    values: npt.NDArray[np.float32] = transfer.values(normed)[0].astype(np.float32)
    return values


def _passes(
    state: EngineState, tokens: list[int], chunk: int, *, sampled: bool, adapter: int
) -> Iterator[tuple[int, int]]:
    """Forward passes over a text in chunks; yields the first token and the count after each.

    No prefix is looked up: cached tokens would have no logits.
    """
    state.grow(prompts.max_total_tokens(state, tokens, SamplingParams(max_tokens=1)))
    request = Request.forward_only(tokens, adapter)
    block_manager = state.kv.block_manager
    request.sequence_id, _ = block_manager.open([], len(tokens))
    try:
        while request.num_uncomputed_tokens:
            first = request.num_computed_tokens
            count = min(chunk, request.num_uncomputed_tokens)
            state.runner.run([ScheduledSequence(request, count, count if sampled else 0)])
            yield first, count
            keys = request.cache_keys(tokens[first : first + count])
            block_manager.commit(request.sequence_id, keys)
            request.num_computed_tokens += count
    finally:
        block_manager.close(request.sequence_id)


def profile(state: EngineState, sequences: int, context: int) -> list[NodeTime]:
    """Time each operation of a decode step over dummy sequences of `context` tokens."""
    settings = state.settings
    if not 1 <= sequences <= settings.max_batch:
        raise InputError(
            f"sequences: expected from 1 to max_batch {settings.max_batch}, got {sequences}"
        )
    if not 1 <= context <= state.context_limit:
        raise InputError(f"context: expected from 1 to {state.context_limit}, got {context}")
    state.grow(sequences * (context + settings.block_tokens))
    block_manager = state.kv.block_manager
    scheduled: list[ScheduledSequence] = []
    try:
        for index in range(sequences):
            request = Request.forward_only([0] * context)
            request.sequence_id, _ = block_manager.open([], context)
            request.num_computed_tokens = context - 1
            scheduled.append(ScheduledSequence(request, 1, 1))
            # No step wrote these blocks, and uninitialized memory may hold NaN.
            state.kv.clear_blocks(request.sequence_id)
            # No vocabulary has such token IDs, so no prompt can match these blocks.
            block_manager.commit(request.sequence_id, [2**32 - 1 - index] * (context - 1))
        return state.runner.profile(scheduled)
    finally:
        for sequence in scheduled:
            block_manager.close(sequence.request.sequence_id or 0)


def routed_experts(state: EngineState, rows: int) -> list[list[int]]:
    """The experts that the router of the last such layer chose for the first rows of a step."""
    arrays = state.runner.workspace.expert_arrays
    if not arrays:
        raise InputError("routed_experts: expected a mixture of experts, got a dense model")
    state.device.synchronize()
    chosen: list[list[int]] = arrays["experts"].to_numpy()[:rows].tolist()
    return chosen
