"""Delays of the host: at the end of a section of the engine's step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from assay.engine.runner import recording

if TYPE_CHECKING:
    from assay.engine.requests.scheduled_sequence import ScheduledSequence

PREFIX: Final = "host."
"""Before the name of a section, where it is the name of a node."""

_SPIN_NS: Final = 200_000
"""What the end of a wait spins for: a sleeping thread is woken late."""


class SectionDelays:
    """Follows the steps of one engine and delays the ends of their sections."""

    times_kernels: Final = False

    def __init__(self, engine: object) -> None:
        """Delay nothing yet; sections of other engines never are."""
        self._engine: Final = engine
        self.delays_ns: Final = [0] * len(recording.SECTIONS)
        self.spent_ns: Final = [0] * len(recording.SECTIONS)
        self.laps: Final = [0] * len(recording.SECTIONS)
        self._steps = 0

    def attach(self, engine: Any) -> recording.EngineRecorder:
        """Follow an engine."""
        return self if engine is self._engine else SectionDelays(engine)

    def begin(self) -> None:
        """A call begins."""

    def launching(self, scheduled: Sequence[ScheduledSequence]) -> int:
        """The launch of a step begins."""
        self._steps += 1
        return self._steps

    def collecting(self, step: int | None) -> None:
        """What follows belongs to a step that was launched before."""

    def lap(self, section: int, copied_bytes: int = 0) -> None:
        """A section ends: delay its end."""
        self.laps[section] += 1
        if delay_ns := self.delays_ns[section]:
            self.spent_ns[section] += wait_ns(delay_ns)

    def end_step(self) -> None:
        """The step whose outputs were collected has ended."""


def wait_ns(delay_ns: int) -> int:
    """Wait in this thread, and return how long that took."""
    begin = time.perf_counter_ns()
    if delay_ns > _SPIN_NS:
        time.sleep((delay_ns - _SPIN_NS) / 1e9)
    while (spent := time.perf_counter_ns() - begin) < delay_ns:
        pass
    return spent
