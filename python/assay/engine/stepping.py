"""One step: who takes part, what the model computes, and what becomes of the tokens it chose."""

from __future__ import annotations

import time
from collections import Counter

from assay.engine import finishing
from assay.engine.assembly import Assembly
from assay.engine.logprobs import TopLogprobs, top_logprobs
from assay.engine.outputs import Chunk
from assay.engine.request import Request
from assay.engine.scheduling import Turn

COUNTED = ("steps", "prompt_tokens", "generated_tokens", "drafted_tokens", "accepted_tokens")
"""What steps count."""


def run_step(parts: Assembly, counts: Counter[str]) -> list[tuple[Request, list[Chunk]]]:
    """Compute once for everything that runs; returns the requests with what each gained."""
    began = time.perf_counter()
    parts.grow_if_short()
    turns = parts.batcher.schedule()
    if not turns:
        return []
    for turn in turns:
        if turn.copy is not None:
            parts.kv.copy_block(*turn.copy)
        if turn.request.first_step is None:
            turn.request.first_step = began
    wanted = [turn.request.params.logprobs for turn in turns if turn.samples]
    reported = [count for count in wanted if count is not None]
    tokens, chances = parts.runner.run(turns, logprobs=bool(reported))
    top: list[TopLogprobs] = [()] * len(tokens)
    if any(reported):
        top = top_logprobs(parts.runner.logits(len(tokens)), max(reported))
    counts["steps"] += 1
    gained = []
    row = 0
    for turn in turns:
        rows = slice(row, row + turn.samples)
        row += turn.samples
        before = len(turn.request.tokens)
        chunks = _take(turn, tokens[rows], None if chances is None else chances[rows], top[rows])
        _note(parts, counts, turn, before, len(chunks))
        gained.append((turn.request, chunks))
    return gained


def _take(
    turn: Turn, tokens: list[int], chances: list[float] | None, top: list[TopLogprobs]
) -> list[Chunk]:
    """Add the tokens that a turn chose to its request, up to the first wrong guess."""
    request = turn.request
    wants = request.params.logprobs
    chunks: list[Chunk] = []
    for index, token in enumerate(tokens):
        chance = None if chances is None or wants is None else chances[index]
        chunks.append(finishing.take(request, token, chance, top[index][: wants or 0]))
        # What follows a guess that was wrong was computed for another text.
        guessed = request.drafts[index] if index < len(request.drafts) else None
        if guessed != token or chunks[-1].finish_reason is not None:
            break
    return chunks


def _note(parts: Assembly, counts: Counter[str], turn: Turn, before: int, taken: int) -> None:
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
    counts["generated_tokens"] += taken
    counts["drafted_tokens"] += len(request.drafts)
    counts["accepted_tokens"] += max(taken - 1, 0)
    request.drafts = []
