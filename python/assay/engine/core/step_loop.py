"""One step: who takes part, what the model computes, and what becomes of the tokens it chose."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from assay.engine.core import output_processor
from assay.engine.core.batch_scheduler import Turn
from assay.engine.core.engine_state import Assembly
from assay.engine.core.logprobs import TopLogprobs, top_logprobs
from assay.engine.core.outputs import Chunk
from assay.engine.core.request import Request
from assay.engine.runner.model_runner import Flight
from assay.errors import AssayError

Gained = tuple[Request, list[Chunk]]
"""A request, and what a step added to it."""

COUNTED = ("steps", "prompt_tokens", "generated_tokens", "drafted_tokens", "accepted_tokens")
"""What steps count."""


def run_step(parts: Assembly, counts: Counter[str]) -> list[Gained]:
    """Compute once for everything that runs; returns the requests with what each gained.

    Where the device works beside the host, the next step is launched before this one's tokens
    are read: its inputs are known but for those tokens, which it finds in the device's memory. A
    request that turns out to have ended has taken part in one step too many, which is forgotten.
    """
    flight = parts.flight
    parts.flight = None
    if flight is None or not any(_is_live(turn) for turn in flight.turns):
        flight = _launch(parts, None)
    if flight is None:
        return []
    if not _can_overlap(parts, flight):
        return reveal(parts, counts, flight)
    _assume(parts, counts, flight)
    try:
        parts.flight = _launch(parts, flight)
    except AssayError:
        # What stands in its way is told where the step is launched for itself, if it is still
        # there; the tokens of this one must not be lost for it.
        parts.flight = None
    return reveal(parts, counts, flight, assumed=True)


def reveal(
    parts: Assembly, counts: Counter[str], flight: Flight, *, assumed: bool = False
) -> list[Gained]:
    """Wait for a step and give each request the tokens that were chosen for it."""
    tokens, chances = parts.runner.collect(flight)
    top: list[TopLogprobs] = [()] * len(tokens)
    if reported := _reported(flight.turns):
        top = top_logprobs(parts.runner.logits(len(tokens)), max(reported))
    counts["steps"] += 1
    gained = []
    row = 0
    for turn in flight.turns:
        rows = slice(row, row + turn.samples)
        row += turn.samples
        if not _is_live(turn):
            continue
        request = turn.request
        if assumed and turn.samples:
            request.tokens.pop()
        before = len(request.tokens)
        chunks = _take(turn, tokens[rows], None if chances is None else chances[rows], top[rows])
        if not assumed:
            _commit(parts, counts, turn, before, len(chunks))
        counts["generated_tokens"] += sum(chunk.token_id is not None for chunk in chunks)
        gained.append((request, chunks))
    return gained


def _launch(parts: Assembly, after: Flight | None) -> Flight | None:
    """Choose who takes part in the next step, and set it going."""
    began = time.perf_counter()
    if after is None:
        parts.grow_if_short()
    turns = parts.batcher.schedule()
    if not turns:
        return None
    for turn in turns:
        if turn.copy is not None:
            parts.kv.copy_block(*turn.copy)
        if turn.request.first_step is None:
            turn.request.first_step = began
    wanted = any(turn.samples and turn.request.params.logprobs is not None for turn in turns)
    return parts.runner.launch(turns, logprobs=wanted, after=after)


def _is_live(turn: Turn) -> bool:
    """Whether a turn's request has not ended since the turn was given to it."""
    return turn.request.finish_reason is None


def _reported(turns: Sequence[Turn]) -> list[int]:
    """How many likely tokens each sampled request wants beside its own, where it wants any."""
    wanted = [turn.request.params.logprobs for turn in turns if turn.samples]
    return [count for count in wanted if count]


def _can_overlap(parts: Assembly, flight: Flight) -> bool:
    """Whether the step after this one can be told before this one's tokens are known."""
    if not parts.overlaps or parts.settings.speculation_depth or parts.must_grow:
        return False
    # Penalties count the tokens; the likeliest ones are picked from logits that the next step
    # would overwrite.
    if any(turn.request.params.penalized for turn in flight.turns) or _reported(flight.turns):
        return False
    # With room for everyone nobody is preempted, whose tokens would have to be known.
    counts = parts.kv.books.statistics()
    chunk = -(-parts.settings.token_budget // counts["block_tokens"])
    return counts["free"] + counts["cached"] >= 2 * len(parts.batcher.running) + chunk


def _assume(parts: Assembly, counts: Counter[str], flight: Flight) -> None:
    """Go on as if a step were over: each sampled request has one more token, not known yet."""
    row = 0
    for turn in flight.turns:
        if _is_live(turn):
            request = turn.request
            _commit(parts, counts, turn, len(request.tokens), turn.samples)
            if turn.samples:
                # What an embedding takes for the token that the step chose in this row.
                request.tokens.append(-2 - row)
        row += turn.samples


def _take(
    turn: Turn, tokens: list[int], chances: list[float] | None, top: list[TopLogprobs]
) -> list[Chunk]:
    """Add the tokens that a turn chose to its request, up to the first wrong guess."""
    request = turn.request
    wants = request.params.logprobs
    chunks: list[Chunk] = []
    for index, token in enumerate(tokens):
        if token < 0:
            chunks.append(output_processor.fail(request))
            break
        chance = None if chances is None or wants is None else chances[index]
        chunks.append(output_processor.take(request, token, chance, top[index][: wants or 0]))
        # What follows a guess that was wrong was computed for another text.
        guessed = request.drafts[index] if index < len(request.drafts) else None
        if guessed != token or chunks[-1].finish_reason is not None:
            break
    return chunks


def _commit(parts: Assembly, counts: Counter[str], turn: Turn, before: int, taken: int) -> None:
    """Commit what a turn computed to the cache's books, and count it."""
    request = turn.request
    first = request.computed
    # Rows of guesses that were not taken are not part of the text.
    computed = turn.count - max(turn.samples - taken, 0)
    known = request.tokens[first:before] + request.drafts
    if request.sequence is not None:
        parts.kv.books.commit(request.sequence, known[:computed])
    request.computed += computed
    counts["prompt_tokens"] += max(min(request.computed, request.prompt_tokens) - first, 0)
    counts["drafted_tokens"] += len(request.drafts)
    counts["accepted_tokens"] += max(taken - 1, 0)
    request.drafts = []
