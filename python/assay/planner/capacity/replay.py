"""A server request by request: continuous batching with chunked prefill, as a discrete-event model.

Each step decodes a token of every running request and fills the rest of the token budget with prompts, first
come, first served. Requests start while the KV cache and the limit of running requests have room; where it
overflows, the newest is pre-empted and computed again. Steps without prompts between two events are one jump.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.errors import EvaluationError
from assay.lazy_import import np
from assay.planner.capacity.served import ServerLimits
from assay.planner.capacity.step_table import StepTable
from assay.planner.capacity.throttle import AVERAGED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_GROWTH: Final = 0.05
"""How much a context may grow in one jump, as a share."""


@dataclass(frozen=True)
class Replayed:
    """Latencies of requests in the order in which they came; TPOT is NaN for one output token."""

    first_token: Numbers
    output_token: Numbers
    end_to_end: Numbers
    steps: int
    preempted: int
    seconds: float = math.nan
    """When the last request is done; NaN of several servers."""


def replay(
    table: StepTable, limits: ServerLimits, arrivals: Numbers, fresh: Numbers, prompts: Numbers,
    outputs: Numbers, *, at_once: int | None = None,
) -> Replayed:  # fmt: skip
    """Replay requests through one server; `fresh` are prompt tokens that the prefix cache lacks.

    With `at_once` the loop is closed: so many come at their times, each other one as one is done.
    """
    if len(arrivals) and float((prompts + outputs).max()) > limits.cache_tokens:
        longest = int((prompts + outputs).max())
        raise EvaluationError(
            f"a request of {longest:,} tokens is longer than the KV cache of "
            f"{limits.cache_tokens:,.0f} tokens"
        )
    return _Server(table, limits, arrivals, fresh, prompts, outputs, at_once).run()


class _Server:
    """The state of a server between two steps."""

    def __init__(
        self, table: StepTable, limits: ServerLimits, arrivals: Numbers, fresh: Numbers,
        prompts: Numbers, outputs: Numbers, at_once: int | None,
    ) -> None:  # fmt: skip
        self.table, self.limits = table, limits
        self.sent = len(arrivals) if at_once is None else min(at_once, len(arrivals))
        """Requests whose time of arrival is known."""
        self.arrivals: list[float] = arrivals.tolist()
        self.prompts: list[float] = prompts.tolist()
        self.left: list[float] = fresh.tolist()
        self.attended: list[float] = (2 * prompts - fresh).tolist()
        self.outputs: list[int] = outputs.astype(int).tolist()
        self.made = [0] * len(self.arrivals)
        self.first = [math.nan] * len(self.arrivals)
        self.done = [math.nan] * len(self.arrivals)
        self.now, self.step, self.preempted = 0.0, 0, 0
        self.ends: list[tuple[int, int]] = []
        """Decoding requests by the step after which each is done."""
        self.started: dict[int, int] = {}
        """Decoding requests, the oldest first, and the step at which each had `made` tokens."""
        self.waiting: deque[int] = deque()
        self.reading: deque[int] = deque()
        """Requests whose prompts are being computed."""
        self.held = 0.0
        """Tokens in the KV cache."""
        self.context = 0.0
        """Tokens in the cache of decoding requests together."""
        self.handled = 0.0
        """When the API process has handed out all tokens so far."""
        self.drawn = 0.0 if table.throttle is None else table.throttle.idle
        """Mean power of a board without a limit, which its clock follows."""
        self.late: list[int] = []
        """Requests whose first token was computed and not handed out yet."""

    def run(self) -> Replayed:
        """Replay all requests."""
        coming, count = 0, len(self.arrivals)
        while coming < count or self.started or self.waiting or self.reading:
            if not (self.started or self.waiting or self.reading):
                self._hand_out(0.0)
                if self.arrivals[coming] > self.now:
                    self._draw(0, 0.0, self.arrivals[coming] - self.now)
                    self.now = self.arrivals[coming]
            while coming < self.sent and self.arrivals[coming] <= self.now:
                self.waiting.append(coming)
                coming += 1
            self._admit()
            if self.reading:
                self._mixed_step()
            else:
                self._decode(self.arrivals[coming] if coming < self.sent else math.inf)
        self._hand_out(0.0)
        return self._result()

    def _admit(self) -> None:
        """Start waiting requests while there is room for them."""
        while self.waiting and len(self.started) + len(self.reading) < self.table.most:
            request = self.waiting[0]
            needed = self.prompts[request] + self.made[request]
            if self.held + needed > self.limits.cache_tokens:
                return
            self.waiting.popleft()
            self.reading.append(request)
            self.held += needed

    def _mixed_step(self) -> None:
        """One step that fills the token budget with prompts."""
        decoding = len(self.started)
        room = max(self.table.budget - decoding, 1)
        taken, attended = 0.0, 0.0
        finished: list[int] = []
        for request in self.reading:
            part = min(self.left[request], room - taken)
            if part <= 0:
                break
            self.left[request] -= part
            taken += part
            attended += part * self.attended[request]
            if self.left[request] <= 0:
                finished.append(request)
        mean = self.context / decoding if decoding else 1.0
        seconds = self.table.one(decoding, mean, taken, attended / taken)
        without = self.table.one(decoding, mean, 0.0, 0.0) if decoding else 0.0
        seconds += self.table.longer_by_power(taken, self.drawn)
        self._draw(decoding, 1 - without / seconds if seconds else 1.0, seconds)
        self._pass(seconds, 1)
        for _ in finished:
            self.reading.popleft()
        for request in finished:
            self._first_token(request)

    def _first_token(self, request: int) -> None:
        """A prompt is computed: its first token is there, or the next of one that was pre-empted."""
        if not self.made[request]:
            self.late.append(request)
        self.handled = max(self.handled, self.now) + self.limits.frontend.token
        self.made[request] += 1
        self.held += 1
        if self.made[request] >= self.outputs[request]:
            self._finish(request)
            return
        self.started[request] = self.step
        self.context += self.prompts[request] + self.made[request]
        heapq.heappush(self.ends, (self.step + self.outputs[request] - self.made[request], request))

    def _finish(self, request: int) -> None:
        self.handled = max(self.handled, self.now) + self.limits.frontend.request
        self.done[request] = max(self.now, self.handled - self.limits.frontend.request)
        if self.sent < len(self.arrivals):
            self.arrivals[self.sent] = max(self.now, self.handled)
            self.sent += 1
        self.held -= self.prompts[request] + self.outputs[request]

    def _decode(self, next_arrival: float) -> None:
        """Steps without prompts until a request is done, one arrives, or contexts have grown."""
        decoding = len(self.started)
        if not decoding:
            # Waiting requests that do not fit beside nothing were refused at the start.
            self.now = next_arrival
            return
        room = (self.limits.cache_tokens - self.held) // decoding
        if room < 1:
            self._preempt()
            return
        mean = self.context / decoding
        seconds = self.table.one(decoding, mean, 0.0, 0.0)
        steps = min(self.ends[0][0] - self.step, int(room), max(1, int(mean * _GROWTH)))
        if math.isfinite(next_arrival) and seconds > 0:
            steps = min(steps, max(1, math.ceil((next_arrival - self.now) / seconds)))
        if steps > 1:
            seconds = self.table.one(decoding, mean + steps / 2, 0.0, 0.0)
        self._draw(decoding, 0.0, seconds * steps)
        self._pass(seconds, steps)

    def _draw(self, decoding: int, prompt_share: float, seconds: float) -> None:
        """Let the mean power follow what runs for so many seconds."""
        throttle = self.table.throttle
        if throttle is not None:
            watts = throttle.drawn(decoding, max(prompt_share, 0.0))
            self.drawn = watts + (self.drawn - watts) * math.exp(-seconds / AVERAGED)

    def _pass(self, seconds: float, steps: int) -> None:
        """Let steps pass: every decoding request has a token more after each."""
        decoding = len(self.started)
        self._hand_out(seconds)
        self.now += seconds * steps
        if self.limits.frontend.token:
            waiting = max(self.handled, self.now - seconds * steps)
            self.handled = waiting + self.limits.frontend.token * decoding * steps
        self.step += steps
        self.held += decoding * steps
        self.context += decoding * steps
        while self.ends and self.ends[0][0] <= self.step:
            _, request = heapq.heappop(self.ends)
            if request not in self.started:
                continue
            del self.started[request]
            self.context -= self.prompts[request] + self.outputs[request]
            self.made[request] = self.outputs[request]
            self._finish(request)

    def _preempt(self) -> None:
        """Give the KV cache of the newest request up; it is computed again when there is room."""
        request = next(reversed(self.started))
        since = self.started.pop(request)
        self.made[request] += self.step - since
        tokens = self.prompts[request] + self.made[request]
        self.ends = [end for end in self.ends if end[1] != request]
        heapq.heapify(self.ends)
        self.context -= tokens
        self.held -= tokens
        self.left[request] = tokens
        self.waiting.appendleft(request)
        self.preempted += 1

    def _hand_out(self, seconds: float) -> None:
        """First tokens of the step before are handed out during the next one."""
        if self.late:
            time = max(self.now + self.limits.late_iterations * seconds, self.handled)
            for request in self.late:
                self.first[request] = time
            self.late.clear()

    def _result(self) -> Replayed:
        arrivals = np.array(self.arrivals)
        added = self.limits.request_seconds
        first = np.array(self.first) - arrivals + added
        outputs = np.array(self.outputs, float)
        whole = np.maximum(np.array(self.done) - arrivals + added, first)
        token = np.where(outputs > 1, (whole - first) / np.maximum(outputs - 1, 1.0), math.nan)
        return Replayed(first, token, whole, self.step, self.preempted, max(self.now, self.handled))
