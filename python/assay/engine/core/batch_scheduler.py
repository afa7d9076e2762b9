"""Which requests take part in the next step, and with how many tokens each.

Requests that decode come first, one token each; what is left of the budget goes to prompts, in
chunks. When the KV cache has no room, the least urgent request gives its blocks up and is
computed again later: its tokens are kept, so that its output does not change.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from assay._native import KvCache
from assay.engine.core.request import Request
from assay.errors import OutOfMemoryError

Policy = Literal["fcfs", "priority", "shortest"]
POLICIES: tuple[str, ...] = get_args(Policy)

_ORDERS: dict[str, Callable[[Request], tuple[int, int]]] = {
    "fcfs": lambda request: (0, request.number),
    "priority": lambda request: (request.priority, request.number),
    "shortest": lambda request: (request.remaining, request.number),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """A request's part in a step."""

    request: Request
    count: int
    """Tokens to compute, drafts included."""
    samples: int
    """How many of its last rows give a token: none while the prompt is not done."""
    copy: tuple[int, int] | None = None
    """A KV block to copy before the step, from and to."""


class Batcher:
    """The requests that wait and those that run."""

    def __init__(
        self, kv: KvCache, *, max_batch: int, token_budget: int, policy: str, speculation: int
    ) -> None:
        """Begin without requests, over the books of a KV cache."""
        self.kv = kv
        self.max_batch = max_batch
        self.token_budget = token_budget
        self.speculation = speculation
        self._policy = policy
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.preemptions = 0
        self.short = False
        """Whether the last step could have done more with more blocks."""

    @property
    def policy(self) -> str:
        """How requests are ordered."""
        return self._policy

    @policy.setter
    def policy(self, policy: str) -> None:
        self._policy = policy
        self.waiting.sort(key=_ORDERS[policy])

    def add(self, request: Request) -> None:
        """Put a request in line."""
        insort(self.waiting, request, key=_ORDERS[self._policy])

    def fork(self, source: Request, request: Request) -> None:
        """Let a request share what another one has in the cache, if both can run."""
        if source.sequence is None or len(self.running) >= self.max_batch:
            self.add(request)
            return
        request.sequence = self.kv.fork(source.sequence)
        request.computed = source.computed
        request.cached_tokens = min(source.computed, request.prompt_tokens)
        self.running.append(request)

    def remove(self, request: Request) -> None:
        """Take a request out, wherever it is, and give its blocks back."""
        (self.waiting if request.sequence is None else self.running).remove(request)
        self._release(request)

    def preempt(self, request: Request) -> None:
        """Take a request's blocks for a more urgent one; what it computed is computed again."""
        self.requeue(request)
        request.preemptions += 1
        self.preemptions += 1

    def requeue(self, request: Request) -> None:
        """Put a running request back in line, without its blocks."""
        self.running.remove(request)
        self._release(request)
        self.add(request)

    def requeue_all(self) -> None:
        """Put every running request back in line."""
        for request in tuple(self.running):
            self.requeue(request)

    def take_over(self, other: Batcher) -> None:
        """Take the requests of another batcher over the same cache, or over none."""
        self.preemptions = other.preemptions
        self.running = other.running
        for request in other.waiting:
            self.add(request)
        while len(self.running) > self.max_batch:
            self.requeue(self.running[-1])

    def schedule(self) -> list[Turn]:
        """The turns of the next step; none when nobody waits or runs."""
        turns: dict[str, Turn] = {}
        preemptions = self.preemptions
        self.short = False
        left = self.token_budget
        for request in self._by_urgency():
            # A request whose blocks went to a more urgent one has no turn any more, and one whose
            # last token is on its way needs none.
            if left > 0 and request.sequence is not None and not request.is_full:
                left -= self._continue(request, left, turns)
        if self.preemptions == preemptions:
            self._admit(turns)
        return list(turns.values())

    def _by_urgency(self) -> list[Request]:
        """The running requests: those that decode first, for their users wait for each token."""
        if len(self.running) < 2:
            return list(self.running)
        order = _ORDERS[self._policy]
        return sorted(self.running, key=lambda request: (request.remaining > 1, order(request)))

    def _continue(self, request: Request, left: int, turns: dict[str, Turn]) -> int:
        """Give a request its turn; returns the tokens it takes, less those that victims give back."""
        remaining = request.remaining
        given_back = 0
        if remaining == 1 and request.lookup is not None and self.speculation:
            room = min(self.speculation, left - 1, request.most_tokens - len(request.tokens) - 1)
            request.drafts = request.lookup.guess(room) if room > 0 else []
        sequence = request.sequence
        assert sequence is not None
        while True:
            count = min(remaining, left) + len(request.drafts)
            try:
                copy = self.kv.reserve(sequence, count)
            except OutOfMemoryError:
                if request.drafts:
                    request.drafts = []
                    continue
                self.short = True
                victim = max(self.running, key=_ORDERS[self._policy])
                self.preempt(victim)
                if lost := turns.pop(victim.request_id, None):
                    given_back += lost.count
                if victim is request:
                    return -given_back
                continue
            samples = 1 + len(request.drafts) if remaining <= left else 0
            turns[request.request_id] = Turn(request, count, samples, copy)
            return count - given_back

    def _admit(self, turns: dict[str, Turn]) -> None:
        left = self.token_budget - sum(turn.count for turn in turns.values())
        while self.waiting and left > 0 and len(self.running) < self.max_batch:
            request = self.waiting[0]
            cached = self.kv.lookup(request.tokens)
            count = min(len(request.tokens) - cached, left)
            if not self._has_room(cached + count):
                self.short = True
                return
            try:
                request.sequence, _ = self.kv.open(request.tokens, cached + count)
            except OutOfMemoryError:
                self.short = True
                return
            del self.waiting[0]
            self.running.append(request)
            request.computed = cached
            if request.first_step is None:
                request.cached_tokens = cached
            samples = int(cached + count == len(request.tokens))
            turns[request.request_id] = Turn(request, count, samples)
            left -= count

    def _has_room(self, tokens: int) -> bool:
        """Whether a block would be left for each running request, so that none is preempted soon."""
        if not self.running:
            return True
        counts = self.kv.statistics()
        needed = -(-tokens // counts["block_tokens"]) + len(self.running)
        return needed <= counts["free"] + counts["cached"]

    def _release(self, request: Request) -> None:
        if request.sequence is not None:
            self.kv.close(request.sequence)
        request.sequence = None
        request.computed = 0
        request.drafts = []
