"""One step of the engine: schedule, launch, read back the sampled tokens.

With async scheduling a step is launched before the sampled tokens of the one before it are read
back: all of its inputs are known but for those tokens, which stay in device memory and stand in
the requests as pending tokens. A request that turns out to have finished has been computed for
one step too many; that result is dropped. Masks of grammars need those tokens: such a step is
launched up to its logits. Its masks are computed while the device computes those and the host does the
rest of its work, and it is sampled when the step after it is ready to be launched.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from assay.engine.core import output_processor
from assay.engine.core.engine_state import EngineState
from assay.engine.core.logprobs import TopLogprobs, top_logprobs
from assay.engine.requests.outputs import Chunk
from assay.engine.requests.pending_token import pending_token
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.engine.runner import recording
from assay.engine.runner.model_runner import InFlightStep
from assay.errors import AssayError

RequestChunks = tuple[Request, list[Chunk]]
"""A request, and what a step added to its output."""

COUNTERS = (
    "steps",
    "prompt_tokens",
    "generated_tokens",
    "drafts",
    "drafted_tokens",
    "accepted_tokens",
    "device_ns",
    "idle_ns",
)
"""What the step loop counts."""


def run_step(state: EngineState, counters: Counter[str]) -> list[RequestChunks]:
    """Run one step over all running requests; returns what it added to each of them."""
    step = state.in_flight
    state.in_flight = None
    if step is None or not any(_is_unfinished(one) for one in step.scheduled):
        step = _launch(state, None)
    if step is None:
        return []
    if not _can_launch_ahead(state, step):
        return collect_outputs(state, counters, step)
    _advance_to_pending(state, counters, step)
    if state.recorder is not None:
        state.recorder.collecting(step.number)
        state.recorder.lap(recording.COMMIT)
    try:
        state.in_flight = _launch(state, step)
    except AssayError:
        # The next call launches again and raises the error if it persists; the sampled tokens of
        # this step must not be lost to it.
        state.in_flight = None
    outputs = collect_outputs(state, counters, step, advanced=True)
    if state.in_flight is not None:
        state.runner.begin_masks(state.in_flight)
    return outputs


def collect_outputs(
    state: EngineState, counters: Counter[str], step: InFlightStep, *, advanced: bool = False
) -> list[RequestChunks]:
    """Wait for a step and append the sampled tokens to their requests.

    `advanced` says that the requests already count the step's tokens as pending.
    """
    recorder = state.recorder
    if recorder is not None:
        recorder.collecting(step.number)
    tokens, logprobs = state.runner.collect(step)
    if state.scheduler.pacer.limit_s:
        _pace(state, step)
    top: list[TopLogprobs] = [()] * len(tokens)
    if not step.totals.is_plain and (counts := _top_logprobs_counts(step.scheduled)):
        top = top_logprobs(state.runner.logits(len(tokens)), max(counts))
        if recorder is not None:
            recorder.lap(recording.LOGPROBS)
    counters["steps"] += 1
    times = state.runner.clock.read()
    counters["device_ns"] += times.device_ns
    counters["idle_ns"] += times.idle_ns
    outputs = []
    row = num_generated = 0
    for sequence in step.scheduled:
        first = row
        row += sequence.num_samples
        request = sequence.request
        if request.finish_reason is not None:
            continue
        request.pending = None
        if advanced and sequence.num_samples == 1 and tokens[first] >= 0 and _is_simple(request):
            # Most sequences of most steps: one token, nothing to verify.
            num_generated += 1
            outputs.append((request, [output_processor.append_token(request, tokens[first])]))
            continue
        rows = slice(first, row)
        num_known = len(request.tokens)
        if request.draft_tokens and state.proposer is not None:
            state.proposer.observe(request, tokens[rows])
        chunks = _append_sampled_tokens(
            sequence, tokens[rows], None if logprobs is None else logprobs[rows], top[rows]
        )
        if not advanced:
            _commit_computed_tokens(state, counters, sequence, num_known, len(chunks))
        num_generated += sum(chunk.token_id is not None for chunk in chunks)
        outputs.append((request, chunks))
    counters["generated_tokens"] += num_generated
    if recorder is not None:
        recorder.lap(recording.APPEND_TOKENS)
    return outputs


def _launch(state: EngineState, after: InFlightStep | None) -> InFlightStep | None:
    """Schedule the next step and launch it, behind one that may still be in flight."""
    start = time.perf_counter()
    if after is None:
        state.grow_if_out_of_blocks()
    scheduled = state.scheduler.schedule()
    if not scheduled:
        return None
    recorder, number = state.recorder, None
    if recorder is not None:
        number = recorder.launching(scheduled)
        recorder.lap(recording.SCHEDULE)
    copies = logprobs = False
    for request, _, num_samples, block_copy in scheduled:
        if block_copy is not None:
            state.kv.copy_block(*block_copy)
            copies = True
        if request.first_scheduled_time is None:
            request.first_scheduled_time = start
        if not request.is_plain and num_samples and request.params.logprobs is not None:
            logprobs = True
    if recorder is not None and copies:
        recorder.lap(recording.COPY_BLOCKS)
    return state.runner.launch(scheduled, logprobs=logprobs, after=after, number=number)


def _pace(state: EngineState, step: InFlightStep) -> None:
    """Tell the pacer how long a step took."""
    decoding = sum(sequence.num_scheduled_tokens == 1 for sequence in step.scheduled)
    state.scheduler.pacer.observe(
        decoding,
        step.totals.num_tokens - decoding,
        step.launched_s,
        time.perf_counter(),
        is_end=bool(step.totals.num_samples),
    )


def _is_unfinished(sequence: ScheduledSequence) -> bool:
    """Whether the request has not finished since it was scheduled."""
    return sequence.request.finish_reason is None


def _is_simple(request: Request) -> bool:
    """Whether a sampled token is all that a step adds: no log-probability, no grammar that failed."""
    if request.is_plain:
        return True
    grammar = request.grammar
    return request.params.logprobs is None and (grammar is None or grammar.error is None)


def _top_logprobs_counts(scheduled: Sequence[ScheduledSequence]) -> list[int]:
    """How many top tokens each sampled request reports, for those that report any."""
    counts = [one.request.params.logprobs for one in scheduled if one.num_samples]
    return [count for count in counts if count]


def _can_launch_ahead(state: EngineState, step: InFlightStep) -> bool:
    """Whether the next step can be launched before this one's sampled tokens are read back."""
    if not state.async_scheduling or state.settings.speculation_depth or state.must_grow:
        return False
    # Penalties follow from the sampled tokens; top logprobs are computed from logits that the next
    # step would overwrite. Masks follow from the tokens too, but nothing before sampling needs them.
    if not step.totals.is_plain:
        if any(sequence.request.params.penalized for sequence in step.scheduled):
            return False
        if _top_logprobs_counts(step.scheduled):
            return False
    # With enough free blocks no request is preempted, whose tokens would have to be known.
    counts = state.kv.block_manager.statistics()
    chunk = -(-state.settings.token_budget // counts["block_tokens"])
    return counts["free"] + counts["cached"] >= 2 * len(state.scheduler.running) + chunk


def _advance_to_pending(state: EngineState, counters: Counter[str], step: InFlightStep) -> None:
    """Count an in-flight step as computed: each sampled request gains a pending token."""
    row = 0
    commit = state.kv.block_manager.commit
    for sequence in step.scheduled:
        request, count, num_samples, _ = sequence
        if request.finish_reason is None:
            computed = request.num_computed_tokens
            is_decode = count == 1 and computed >= request.num_prompt_tokens
            if is_decode and not request.adapter and request.sequence_id is not None:
                commit(request.sequence_id, request.tokens[computed : computed + 1])
                request.num_computed_tokens = computed + 1
            else:
                known = len(request.tokens)
                _commit_computed_tokens(state, counters, sequence, known, num_samples)
            if num_samples:
                request.pending = pending_token(row)
        row += num_samples


def _append_sampled_tokens(
    sequence: ScheduledSequence,
    tokens: list[int],
    logprobs: list[float] | None,
    top: list[TopLogprobs],
) -> list[Chunk]:
    """Append the sampled tokens to their request, up to the first rejected draft token."""
    request = sequence.request
    num_top = request.params.logprobs
    if (failure := output_processor.fail_grammar(request)) is not None:
        return [failure]
    chunks: list[Chunk] = []
    for index, token in enumerate(tokens):
        if token < 0:
            chunks.append(output_processor.fail(request))
            break
        logprob = None if logprobs is None or num_top is None else logprobs[index]
        chunks.append(
            output_processor.append_token(request, token, logprob, top[index][: num_top or 0])
        )
        # The rows after a rejected draft token were computed for another text.
        draft = request.draft_tokens[index] if index < len(request.draft_tokens) else None
        if draft != token or chunks[-1].finish_reason is not None:
            break
    return chunks


def _commit_computed_tokens(
    state: EngineState,
    counters: Counter[str],
    sequence: ScheduledSequence,
    num_known: int,
    num_accepted: int,
) -> None:
    """Commit the tokens that a step computed for a sequence to the block manager."""
    request = sequence.request
    first = request.num_computed_tokens
    # Rows of rejected draft tokens are not part of the text.
    num_computed = sequence.num_scheduled_tokens - max(sequence.num_samples - num_accepted, 0)
    known = request.tokens[first:num_known] + request.draft_tokens
    if request.sequence_id is not None:
        keys = request.cache_keys(known[:num_computed])
        state.kv.block_manager.commit(request.sequence_id, keys)
    request.num_computed_tokens += num_computed
    num_prefilled = min(request.num_computed_tokens, request.num_prompt_tokens) - first
    counters["prompt_tokens"] += max(num_prefilled, 0)
    counters["drafts"] += bool(request.draft_tokens)
    counters["drafted_tokens"] += len(request.draft_tokens)
    counters["accepted_tokens"] += max(num_accepted - 1, 0)
    request.draft_tokens = []
