"""The batch scheduler: which requests a step computes, and how many tokens of each.

Continuous batching with chunked prefill: running requests that decode come first, one token each;
the rest of the token budget goes to prefill, in chunks. When the KV cache has no free block, the
least urgent request is preempted: it gives its blocks up, keeps its tokens and is computed again
later, so that its output does not change.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Literal, get_args

from assay._native import BlockManager
from assay.engine.core.step_pacing import StepPacer
from assay.engine.requests.request import Request
from assay.engine.requests.scheduled_sequence import ScheduledSequence
from assay.engine.speculation.proposer import DraftWanted, Proposer
from assay.errors import OutOfMemoryError

Policy = Literal["fcfs", "priority", "shortest"]
POLICIES: tuple[str, ...] = get_args(Policy)

_SORT_KEYS: dict[str, Callable[[Request], tuple[int, int]]] = {
    "fcfs": lambda request: (0, request.arrival_order),
    "priority": lambda request: (request.priority, request.arrival_order),
    "shortest": lambda request: (request.num_uncomputed_tokens, request.arrival_order),
}

_BY_ARRIVAL: Callable[[Request], Any] = attrgetter("arrival_order")
"""The order of fcfs, without a call of Python for each request."""


class BatchScheduler:
    """The waiting and the running requests."""

    def __init__(
        self,
        block_manager: BlockManager,
        *,
        max_batch: int,
        token_budget: int,
        policy: str,
        speculation_depth: int,
        proposer: Proposer | None = None,
        pacer: StepPacer | None = None,
    ) -> None:
        """Start without requests; blocks come from this block manager, drafts from a proposer."""
        self.block_manager = block_manager
        self.max_batch = max_batch
        self.token_budget = token_budget
        self.speculation_depth = speculation_depth
        self.proposer = proposer
        self.pacer = pacer or StepPacer(0.0)
        self._policy = policy
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.num_preemptions = 0
        self._block_tokens = block_manager.statistics()["block_tokens"]
        self.ran_out_of_blocks = False
        """Whether the last step could have computed more with more free blocks."""

    @property
    def policy(self) -> str:
        """How requests are ordered."""
        return self._policy

    @policy.setter
    def policy(self, policy: str) -> None:
        self._policy = policy
        self.waiting.sort(key=_SORT_KEYS[policy])

    def add(self, request: Request) -> None:
        """Queue a request."""
        insort(self.waiting, request, key=_SORT_KEYS[self._policy])

    def fork(self, source: Request, request: Request) -> None:
        """Run a request on the blocks of another one, or queue it where that is not possible."""
        if source.sequence_id is None or len(self.running) >= self.max_batch:
            self.add(request)
            return
        request.sequence_id = self.block_manager.fork(source.sequence_id)
        request.num_computed_tokens = source.num_computed_tokens
        request.num_cached_tokens = min(source.num_computed_tokens, request.num_prompt_tokens)
        self.running.append(request)

    def remove(self, request: Request) -> None:
        """Remove a waiting or running request and free its blocks."""
        (self.waiting if request.sequence_id is None else self.running).remove(request)
        if self.proposer is not None:
            self.proposer.release(request)
        self._free_blocks(request)

    def preempt(self, request: Request) -> None:
        """Free the blocks of a running request for a more urgent one; it is recomputed later."""
        self.requeue(request)
        request.num_preemptions += 1
        self.num_preemptions += 1

    def requeue(self, request: Request) -> None:
        """Move a running request back to the queue and free its blocks."""
        self.running.remove(request)
        self._free_blocks(request)
        if self.proposer is not None:
            self.proposer.release(request)
        self.add(request)

    def requeue_all(self) -> None:
        """Move every running request back to the queue."""
        for request in tuple(self.running):
            self.requeue(request)

    def adopt_requests(self, other: BatchScheduler) -> None:
        """Move the requests of another scheduler here; running ones keep their blocks."""
        self.num_preemptions = other.num_preemptions
        if other.pacer.limit_s == self.pacer.limit_s:
            self.pacer = other.pacer
        self.running = other.running
        for request in other.waiting:
            self.add(request)
        while len(self.running) > self.max_batch:
            self.requeue(self.running[-1])

    def schedule(self) -> list[ScheduledSequence]:
        """The sequences of the next step; empty when there is nothing to compute."""
        scheduled: dict[str, ScheduledSequence] = {}
        num_preemptions = self.num_preemptions
        self.ran_out_of_blocks = False
        running = self._running_by_urgency()
        budget = limit = self._step_budget(running)
        if self.proposer is not None and self.speculation_depth:
            self._propose(self.proposer, running)
        for request in running:
            # A preempted request has no sequence any more; one whose last token is pending has
            # nothing left to compute.
            if budget > 0 and request.sequence_id is not None and not request.is_full:
                budget -= self._schedule_running(request, budget, scheduled)
        if self.num_preemptions == num_preemptions:
            self._schedule_waiting(scheduled, limit)
        return list(scheduled.values())

    def _step_budget(self, running: list[Request]) -> int:
        """Tokens of the step: the budget, cut where decode must not wait for so much prefill."""
        if not self.pacer.limit_s:
            return self.token_budget
        decoding = sum(request.num_uncomputed_tokens == 1 for request in running)
        return self.pacer.budget(decoding, self.token_budget)

    def _running_by_urgency(self) -> list[Request]:
        """The running requests: decode before prefill, since its users wait for each token."""
        if len(self.running) < 2:
            return list(self.running)
        decoding: list[Request] = []
        prefilling: list[Request] = []
        for request in self.running:
            is_prefill = request.num_uncomputed_tokens > 1
            (prefilling if is_prefill else decoding).append(request)
        key = _BY_ARRIVAL if self._policy == "fcfs" else _SORT_KEYS[self._policy]
        decoding.sort(key=key)
        prefilling.sort(key=key)
        return decoding + prefilling

    def _propose(self, proposer: Proposer, running: list[Request]) -> None:
        """Draft for the requests that decode, all at once, within the token budget."""
        decoding = [
            request
            for request in running
            if request.num_uncomputed_tokens == 1 and not request.is_full
        ]
        budget = self.token_budget - len(decoding)
        wanted = []
        for request in decoding:
            request.draft_tokens = []
            # Penalties change logits with each token of the output, draft tokens included.
            if request.params.penalized:
                continue
            count = request.max_total_tokens - request.num_tokens - 1
            count = min(self.speculation_depth, budget, count)
            if count > 0:
                budget -= count
                wanted.append(DraftWanted(request, count))
        if wanted:
            for (request, count), draft in zip(wanted, proposer.propose(wanted), strict=True):
                request.set_draft(draft[:count])

    def _schedule_running(
        self, request: Request, budget: int, scheduled: dict[str, ScheduledSequence]
    ) -> int:
        """Schedule a running request; returns its tokens less those of requests it preempted."""
        uncomputed = request.num_uncomputed_tokens
        num_returned = 0
        sequence_id = request.sequence_id
        assert sequence_id is not None
        while True:
            num_scheduled = min(uncomputed, budget) + len(request.draft_tokens)
            try:
                block_copy = self.block_manager.reserve(sequence_id, num_scheduled)
            except OutOfMemoryError:
                if request.draft_tokens:
                    request.draft_tokens = []
                    continue
                self.ran_out_of_blocks = True
                victim = max(self.running, key=_SORT_KEYS[self._policy])
                self.preempt(victim)
                if dropped := scheduled.pop(victim.request_id, None):
                    num_returned += dropped.num_scheduled_tokens
                if victim is request:
                    return -num_returned
                continue
            num_samples = 1 + len(request.draft_tokens) if uncomputed <= budget else 0
            scheduled[request.request_id] = ScheduledSequence(
                request, num_scheduled, num_samples, block_copy
            )
            return num_scheduled - num_returned

    def _schedule_waiting(self, scheduled: dict[str, ScheduledSequence], limit: int) -> None:
        """Start waiting requests while sequences, token budget and blocks last."""
        budget = limit - sum(sequence.num_scheduled_tokens for sequence in scheduled.values())
        growing: int | None = None
        while self.waiting and budget > 0 and len(self.running) < self.max_batch:
            if growing is None:
                growing = sum(map(self._grows, self.running))
            request = self.waiting[0]
            keys = request.cache_keys(request.tokens)
            num_cached = self.block_manager.lookup(keys)
            num_scheduled = min(len(request.tokens) - num_cached, budget)
            if not self._has_free_blocks(num_cached + num_scheduled, growing):
                self.ran_out_of_blocks = True
                return
            try:
                request.sequence_id, _ = self.block_manager.open(keys, num_cached + num_scheduled)
            except OutOfMemoryError:
                self.ran_out_of_blocks = True
                return
            del self.waiting[0]
            self.running.append(request)
            request.num_computed_tokens = num_cached
            if request.first_scheduled_time is None:
                request.num_cached_tokens = num_cached
            num_samples = int(num_cached + num_scheduled == len(request.tokens))
            scheduled[request.request_id] = ScheduledSequence(request, num_scheduled, num_samples)
            budget -= num_scheduled
            growing += self._grows(request)

    def _has_free_blocks(self, num_tokens: int, growing: int) -> bool:
        """Whether a block stays free for each of the `growing` running requests.

        Then none is preempted soon.
        """
        if not self.running:
            return True
        counts = self.block_manager.statistics()
        needed = -(-num_tokens // self._block_tokens) + growing
        return needed <= counts["free"] + counts["cached"]

    def _grows(self, request: Request) -> bool:
        """Whether a request may need another block than those that its tokens fill."""
        size = self._block_tokens
        return -(-request.max_total_tokens // size) > -(-request.num_tokens // size)

    def _free_blocks(self, request: Request) -> None:
        if request.sequence_id is not None:
            self.block_manager.close(request.sequence_id)
        request.sequence_id = None
        request.num_computed_tokens = 0
        request.draft_tokens = []
