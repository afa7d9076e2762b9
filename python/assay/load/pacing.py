"""When requests of a window are sent: as others end, or by the clock."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

from assay.load.answers import Sent
from assay.load.workloads.arrivals import schedule
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import Window, Workload

Answered = Sent | RequestRecord
Ask = Callable[[int, float | None], Awaitable[Answered]]
"""Sends the request with this number, which was scheduled for this time."""


class Schedule:
    """The requests of a window in order, each with its time in an open loop."""

    def __init__(self, workload: Workload, window: Window) -> None:
        self._workload = workload
        self._window = window
        self.is_closed = workload.arrival == "closed"
        self.concurrency = workload.concurrency
        self.seconds = window.seconds

    def __iter__(self) -> Iterator[tuple[int, float | None]]:
        """Number and time from the window's start; None in a closed loop. Ends at the window's limit.

        A number goes on after the last request: modulo their count it is the request's index.
        """
        for position, _, due_s in schedule(self._workload, self._window.offset):
            if self._window.requests is not None and position >= self._window.requests:
                return
            if not self.is_closed and self.seconds is not None and due_s >= self.seconds:
                return
            yield self._window.offset + position, None if self.is_closed else due_s

    def warmup(self) -> list[int]:
        """The requests just before the window: they do not fill a prefix cache for its first ones."""
        offset, count = self._window.offset, len(self._workload.requests)
        return [(offset - 1 - back) % count for back in range(self._window.warmup_requests)][::-1]

    def most_at_once(self) -> int:
        """Connections that a closed loop needs: no more than it has requests."""
        width = self.concurrency or 1
        return width if self._window.requests is None else min(width, self._window.requests)

    def distinct(self) -> set[int]:
        """Every request that may be sent."""
        count = len(self._workload.requests)
        if self._window.requests is None:
            return set(range(count))
        places = range(self._window.offset, self._window.offset + self._window.requests)
        return {place % count for place in places[:count]} | set(self.warmup())


async def run_closed(plan: Schedule, ask: Ask, start_s: float) -> list[Answered]:
    """So many requests under way at once, each followed by the next, until the limit."""
    places = iter(plan)
    answers: list[Answered] = []

    async def worker() -> None:
        for number, _ in places:
            answers.append(await ask(number, None))
            if plan.seconds is not None and time.monotonic() - start_s >= plan.seconds:
                return

    await asyncio.gather(*(worker() for _ in range(plan.concurrency or 1)))
    return answers


async def run_open(plan: Schedule, ask: Ask, start_s: float) -> list[Answered]:
    """Each request at its time, whether others ended or not; at most `concurrency` under way."""
    limit: contextlib.AbstractAsyncContextManager[object] = (
        contextlib.nullcontext()
        if plan.concurrency is None
        else asyncio.Semaphore(plan.concurrency)
    )

    async def limited(number: int, at_s: float) -> Answered:
        async with limit:
            return await ask(number, at_s)

    tasks = []
    for number, at_s in plan:
        assert at_s is not None
        if (wait_s := start_s + at_s - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        tasks.append(asyncio.create_task(limited(number, at_s)))
    return list(await asyncio.gather(*tasks))
