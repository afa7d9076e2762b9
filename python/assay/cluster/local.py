"""Parts in processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from assay.cluster.parts import RETRIES, Work, WorkerLostError, perform

_AHEAD: Final = 4
"""Parts that wait for each process."""


@dataclass(frozen=True)
class ThisProcess:
    """One part after the other, here."""

    place: str = "in this process"

    def results(self, work: Work, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """What `perform` returned, in order."""
        for number in numbers:
            yield number, perform(work.task, work.shared_text, work.part_text(number))


@dataclass(frozen=True)
class Processes:
    """Several parts at once."""

    workers: int

    @property
    def place(self) -> str:
        """How many processes."""
        return f"in {self.workers} processes"

    def results(self, work: Work, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        """What `perform` returned, as parts are done; a process that dies is replaced."""
        from concurrent.futures.process import BrokenProcessPool

        left, lost = list(numbers), 0
        while left:
            try:
                for number, result in self._once(work, left):
                    left.remove(number)
                    yield number, result
            except BrokenProcessPool:
                lost += 1
                if lost > RETRIES:
                    raise WorkerLostError(
                        f"a process that ran {work.what} died {lost} times",
                        "it may have used up the memory: fewer --workers need less",
                    ) from None

    def _once(self, work: Work, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        import multiprocessing
        from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

        # A process of its own start has none of this one's threads and locks.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.workers, mp_context=context)
        try:
            waiting = iter(numbers)
            running = {}
            while True:
                for number in waiting:
                    texts = (work.task, work.shared_text, work.part_text(number))
                    running[pool.submit(perform, *texts)] = number
                    if len(running) >= _AHEAD * self.workers:
                        break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
