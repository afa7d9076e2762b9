"""Speculation with a draft model (vLLM's method `draft_model`): a smaller model drafts.

The draft model may be another model with the same tokens, or the same weights in a smaller format
(`draft_weight_format`). It has a KV cache and a block manager of its own, with a prefix cache: it
computes a prompt when the first draft is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.engine.runner.degradations import Degradations
from assay.engine.runner.kv_memory import KvMemory
from assay.engine.runner.model_runner import InFlightStep, ModelRunner
from assay.engine.speculation.draft_decoder import DraftDecoder, draft_request
from assay.engine.speculation.proposer import DraftWanted
from assay.engine.speculation.slots_ahead import SlotsAhead
from assay.errors import OutOfMemoryError


class _DraftSequence:
    """A request in the draft model."""

    __slots__ = ("draft", "request")

    def __init__(self, request: Request) -> None:
        self.request = draft_request(request)
        self.draft: list[int] = []
        """The last draft, whose keys and values are written behind the committed tokens."""

    def take_up(self, tokens: Sequence[int]) -> list[int]:
        """Follow the text; returns the tokens of the last draft that are part of it."""
        own = self.request.tokens
        known = len(own)
        own += tokens[known:]
        # The keys and values of the last draft token were never computed, and the last token of the
        # text is computed again: the next draft begins with its logits.
        accepted = 0
        for drafted, token in zip(self.draft[:-1], tokens[known:-1], strict=False):
            if drafted != token:
                break
            accepted += 1
        self.draft = []
        return own[known : known + accepted]


class DraftModelProposer:
    """Drafts of a second model, decoded one token after the other."""

    def __init__(self, runner: ModelRunner, kv: KvMemory, vocabulary: int, context: int) -> None:
        """Draft with a runner over its own KV cache, for a model with these tokens."""
        self._runner = runner
        self._kv = kv
        self._block_manager = kv.block_manager
        self._slots = SlotsAhead(kv.block_manager)
        runner.slots = self._slots
        self._decoder = DraftDecoder(runner, self._slots, vocabulary)
        self._context = context
        self._sequences: dict[str, _DraftSequence] = {}
        self._degradations = Degradations()

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        """Draft for all requests in one batch; none for those that do not fit the draft's cache."""
        drafts: list[list[int]] = [[] for _ in wanted]
        chosen: list[tuple[int, _DraftSequence, int]] = []
        for index, (request, most) in enumerate(wanted):
            count = min(most, self._context - len(request.tokens))
            known = self._sequences.get(request.request_id)
            if known is not None and len(known.request.tokens) == len(request.tokens):
                # The step that was to verify this draft did not run.
                drafts[index] = known.draft[:count]
            elif count > 0 and (sequence := self._reserve(request, count)) is not None:
                chosen.append((index, sequence, count))
        if not chosen:
            return drafts
        requests = [sequence.request for _, sequence, _ in chosen]
        first = self._compute(requests)
        decoded = self._decoder.decode(requests, [count for *_, count in chosen], first, ahead=0)
        for (index, sequence, _), draft in zip(chosen, decoded, strict=True):
            sequence.request.num_computed_tokens = len(sequence.request.tokens)
            sequence.draft = drafts[index] = draft
        return drafts

    def observe(self, request: Request, sampled: Sequence[int]) -> None:
        """Nothing to learn: accepted tokens are in the text."""

    def release(self, request: Request) -> None:
        """Free the blocks of a request; full ones stay in the prefix cache."""
        sequence = self._sequences.pop(request.request_id, None)
        if sequence is not None and sequence.request.sequence_id is not None:
            self._block_manager.close(sequence.request.sequence_id)

    def close(self) -> None:
        """Free step buffers and KV cache."""
        self._sequences.clear()
        self._runner.close()
        self._kv.free()

    @property
    def degradations(self) -> Sequence[str]:
        """A draft cache that is too small, and steps of the draft that run without a graph."""
        return [*self._degradations, *self._runner.degradations]

    def _reserve(self, request: Request, count: int) -> _DraftSequence | None:
        """The request's sequence with slots for its new tokens and a draft; None without room."""
        sequence = self._sequences.get(request.request_id)
        try:
            if sequence is None:
                sequence = _DraftSequence(request)
                tokens = sequence.request.tokens
                opened, num_cached = self._block_manager.open(tokens, len(tokens) + count - 1)
                sequence.request.sequence_id = opened
                sequence.request.num_computed_tokens = num_cached
                self._sequences[request.request_id] = sequence
                return sequence
            own = sequence.request
            accepted = sequence.take_up(request.tokens)
            assert own.sequence_id is not None
            self._block_manager.commit(own.sequence_id, accepted)
            own.num_computed_tokens += len(accepted)
            self._block_manager.reserve(own.sequence_id, own.num_uncomputed_tokens + count - 1)
        except OutOfMemoryError as error:
            self.release(request)
            if not self._degradations:
                self._degradations.note("some requests have no draft tokens", error.message)
            return None
        return sequence

    def _compute(self, requests: Sequence[Request]) -> InFlightStep:
        """Compute all known tokens; returns the step that samples after the last of each."""
        budget = self._runner.workspace.max_shape.num_tokens
        total = sum(request.num_uncomputed_tokens for request in requests)
        for request in requests:
            while total > budget and request.num_uncomputed_tokens > 1:
                count = min(request.num_uncomputed_tokens - 1, budget)
                step = self._runner.launch([ScheduledSequence(request, count, 0)])
                self._runner.collect(step)
                self._commit(request, count)
                total -= count
        counts = [request.num_uncomputed_tokens for request in requests]
        step = self._runner.launch(
            [
                ScheduledSequence(request, count, 1)
                for request, count in zip(requests, counts, strict=True)
            ]
        )
        for request, count in zip(requests, counts, strict=True):
            self._commit(request, count)
        return step

    def _commit(self, request: Request, count: int) -> None:
        first = request.num_computed_tokens
        assert request.sequence_id is not None
        self._block_manager.commit(request.sequence_id, request.tokens[first : first + count])
        request.num_computed_tokens += count
