"""A window of a workload on an engine of this process: requests in by plan, records out."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.engine import SamplingParams
from assay.engine.requests.outputs import StepOutput
from assay.errors import AssayError, InputError
from assay.improve.engines.own_requests import sampling_params
from assay.improve.engines.probing import Prompt
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import PlannedRequest, Window, Workload

MAX_IDLE_S = 0.05
"""Longest sleep of an open loop that waits for the next arrival, so that Ctrl-C is heard."""


class SteppedEngine(Protocol):
    """What a window needs of an engine of this process."""

    def add_request(self, prompt: Any, params: SamplingParams) -> str:
        """Queue a prompt; the id of the request."""

    def step(self) -> Sequence[StepOutput]:
        """Run one step; what it added to requests."""

    def is_under_way(self, request_id: str) -> bool:
        """Whether a request has not ended."""

    def abort(self, request_id: str) -> object:
        """End a request."""


@dataclass(slots=True)
class _UnderWay:
    """A request that has been sent and has not ended."""

    number: int
    sent_s: float
    scheduled_s: float | None
    arrivals_s: list[float] = field(default_factory=list)
    """When tokens arrived: one time for each step that added some."""
    tokens: list[int] = field(default_factory=list)
    prompt_tokens: int = 0

    def record(self, end_s: float, error: str | None) -> RequestRecord:
        """What the load metrics are computed from."""
        times = self.arrivals_s
        return RequestRecord(
            number=self.number,
            sent_s=self.sent_s,
            first_token_s=times[0] if times else None,
            end_s=end_s,
            prompt_tokens=self.prompt_tokens,
            output_tokens=len(self.tokens),
            itls_s=tuple(later - earlier for earlier, later in itertools.pairwise(times)),
            error=error,
            scheduled_s=self.scheduled_s,
            digest=hashlib.sha256(",".join(map(str, self.tokens)).encode()).hexdigest(),
            output=tuple(self.tokens),
        )


def planned(workload: Workload, offset: int) -> Iterator[tuple[PlannedRequest, float]]:
    """Requests from an offset on, round and round, each with its arrival after the first one's."""
    requests = workload.requests
    if not requests:
        raise InputError(f'workload "{workload.name}": expected requests, got none')
    cycle, number = divmod(offset, len(requests))
    last = requests[-1].arrival_s
    # The gap between the last request and the first of the next round is the mean one.
    period = last + last / max(len(requests) - 1, 1)
    first = requests[number].arrival_s + cycle * period
    while True:
        request = requests[number]
        yield request, request.arrival_s + cycle * period - first
        number += 1
        if number == len(requests):
            cycle, number = cycle + 1, 0


def text_of(request: PlannedRequest) -> Prompt:
    """The prompt of an engine that is given texts."""
    return request.prompt


class OwnWindow:
    """Runs one window; `records` and `seconds` afterwards are what it measured."""

    def __init__(
        self,
        engine: SteppedEngine,
        workload: Workload,
        window: Window,
        prompt_of: Callable[[PlannedRequest], Prompt] = text_of,
    ) -> None:
        """Prepare; nothing is sent yet."""
        if window.seconds is None and window.requests is None:
            raise InputError("window: expected seconds or requests, got neither")
        self.records: list[RequestRecord] = []
        self.seconds = 0.0
        self._engine = engine
        self._prompt_of = prompt_of
        self._workload = workload
        self._window = window
        self._plan = planned(workload, window.offset)
        self._is_open = workload.rate is not None or workload.arrival != "closed"
        self._most = workload.concurrency
        if self._most is None and not self._is_open:
            # Offline: all of the window's requests at once.
            self._most = window.requests or len(workload.requests)
        self._under_way: dict[str, _UnderWay] = {}
        self._sent = 0
        self._next = next(self._plan)
        self._begun = 0.0

    def run(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Send until the window's limit, and read every request to its end."""
        self._begun = clock()
        try:
            while True:
                self._send(clock)
                if self._under_way:
                    outputs = self._engine.step()
                    now = clock() - self._begun
                    for output in outputs:
                        self._receive(output, now)
                elif self._is_over(clock() - self._begun):
                    break
                else:
                    wait = self._next[1] - (clock() - self._begun)
                    time.sleep(min(max(wait, 0.0), MAX_IDLE_S))
        finally:
            for request_id in self._under_way:
                if self._engine.is_under_way(request_id):
                    self._engine.abort(request_id)
        self.seconds = max((record.end_s for record in self.records), default=clock() - self._begun)
        self.records.sort(key=lambda record: record.number)

    def _is_over(self, now: float) -> bool:
        """Whether nothing more is sent."""
        window = self._window
        if window.requests is not None and self._sent >= window.requests:
            return True
        due = self._next[1] if self._is_open else now
        return window.seconds is not None and due >= window.seconds

    def _send(self, clock: Callable[[], float]) -> None:
        """Send what is due."""
        most = self._most
        while not self._is_over(now := clock() - self._begun):
            if most is not None and len(self._under_way) >= most:
                return
            if self._is_open and self._next[1] > now:
                return
            self._send_one(now)
            self._next = next(self._plan)

    def _send_one(self, now: float) -> None:
        request, arrival_s = self._next
        scheduled = arrival_s if self._is_open else None
        # An engine takes requests between two steps; the wait until then is part of the TTFT, so
        # that a request of an open loop counts from its arrival.
        request_under_way = _UnderWay(
            number=self._window.offset + self._sent,
            sent_s=now if scheduled is None else scheduled,
            scheduled_s=scheduled,
        )
        self._sent += 1
        try:
            request_id = self._engine.add_request(
                self._prompt_of(request), sampling_params(request)
            )
        except AssayError as error:
            self.records.append(request_under_way.record(now, error.message))
            return
        self._under_way[request_id] = request_under_way

    def _receive(self, output: StepOutput, now: float) -> None:
        request_under_way = self._under_way.get(output.request_id)
        if request_under_way is None:
            return
        tokens = output.token_ids
        if tokens:
            request_under_way.arrivals_s.append(now)
            request_under_way.tokens += tokens
        if not output.finished:
            return
        del self._under_way[output.request_id]
        if output.summary is not None:
            request_under_way.prompt_tokens = output.summary.prompt_tokens
        error = None if output.error is None else output.error.message
        self.records.append(request_under_way.record(now, error))
