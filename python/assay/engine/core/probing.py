"""What the model makes of a text, and how long its operations take, beside any request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.engine.core import prompts
from assay.engine.core.batch_scheduler import Turn
from assay.engine.core.engine_state import Assembly
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


def logits(parts: Assembly, tokens: list[int]) -> npt.NDArray[np.float32]:
    """The logits after each token, computed afresh: tokens by vocabulary."""
    parts.grow(prompts.most_tokens(parts, tokens, SamplingParams(max_tokens=1)))
    most = min(parts.runner.workspace.most.samples, parts.settings.token_budget)
    request = Request.probe(tokens)
    books = parts.kv.books
    # Nothing may be found in the cache: every row is wanted.
    request.sequence, _ = books.open([], len(tokens))
    rows = []
    try:
        while request.remaining:
            count = min(most, request.remaining)
            parts.runner.run([Turn(request, count, count)])
            rows.append(parts.runner.logits(count))
            books.commit(request.sequence, tokens[request.computed : request.computed + count])
            request.computed += count
    finally:
        books.close(request.sequence)
    return np.concatenate(rows)


def profile(parts: Assembly, sequences: int, context: int) -> list[NodeTime]:
    """Run a decoding step over made-up texts of so many tokens and time each operation."""
    settings = parts.settings
    if not 1 <= sequences <= settings.max_batch:
        raise InputError(
            f"sequences: expected from 1 to max_batch {settings.max_batch}, got {sequences}"
        )
    if not 1 <= context <= parts.context_limit:
        raise InputError(f"context: expected from 1 to {parts.context_limit}, got {context}")
    parts.grow(sequences * (context + settings.block_tokens))
    books = parts.kv.books
    turns: list[Turn] = []
    try:
        for index in range(sequences):
            request = Request.probe([0] * context)
            request.sequence, request.computed = books.open([], context)[0], context - 1
            turns.append(Turn(request, 1, 1))
            # Nothing wrote these blocks, and what memory happens to hold may be no number.
            parts.kv.clear_blocks(request.sequence)
            # No token has such a number, so no prompt can find these blocks.
            books.commit(request.sequence, [2**32 - 1 - index] * (context - 1))
        return parts.runner.profile(turns)
    finally:
        for turn in turns:
            books.close(turn.request.sequence or 0)
