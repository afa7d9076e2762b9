"""Forward passes outside the scheduler: logits of a text, and the profile of a decode step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.engine.core import prompts
from assay.engine.core.batch_scheduler import ScheduledSequence
from assay.engine.core.engine_state import EngineState
from assay.engine.core.request import Request
from assay.engine.core.sampling_params import SamplingParams
from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.runtime.graphs import NodeTime

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LazyModule("numpy", globals(), "np")


def logits(state: EngineState, tokens: list[int]) -> npt.NDArray[np.float32]:
    """The logits after each token, without the prefix cache: tokens by vocabulary."""
    state.grow(prompts.max_total_tokens(state, tokens, SamplingParams(max_tokens=1)))
    chunk = min(state.runner.workspace.max_shape.num_samples, state.settings.token_budget)
    request = Request.forward_only(tokens)
    block_manager = state.kv.block_manager
    # No prefix is looked up: cached tokens would have no logits.
    request.sequence_id, _ = block_manager.open([], len(tokens))
    rows = []
    try:
        while request.num_uncomputed_tokens:
            count = min(chunk, request.num_uncomputed_tokens)
            state.runner.run([ScheduledSequence(request, count, count)])
            rows.append(state.runner.logits(count))
            first = request.num_computed_tokens
            block_manager.commit(request.sequence_id, tokens[first : first + count])
            request.num_computed_tokens += count
    finally:
        block_manager.close(request.sequence_id)
    return np.concatenate(rows)


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
