"""Times the steps of one engine: host sections, and what each step computes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from assay._native import HostLog, set_trace_step

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.engine.requests.scheduled_sequence import ScheduledSequence


class StepFacts:
    """A step of the engine, on the log's clock."""

    __slots__ = (
        "batch", "context", "end_ns", "number", "prefill_tokens", "requests", "start_ns",
    )  # fmt: skip

    def __init__(self, number: int, start_ns: int, scheduled: Sequence[ScheduledSequence]) -> None:
        """Count what the step computes."""
        batch = prefill_tokens = context = 0
        for sequence in scheduled:
            request, tokens = sequence.request, sequence.num_scheduled_tokens
            computed = request.num_computed_tokens
            if computed < request.num_prompt_tokens:
                prefill_tokens += tokens
            else:
                batch += 1
            if computed + tokens > context:
                context = computed + tokens
        self.number = number
        self.start_ns = start_ns
        self.end_ns: int | None = None
        """None while its outputs were not collected."""
        self.batch = batch
        """Sequences that decode."""
        self.prefill_tokens = prefill_tokens
        self.context = context
        """The longest context, with the tokens of this step."""
        self.requests = len(scheduled)

    @property
    def phase(self) -> str:
        """prefill, decode or mixed."""
        if not self.prefill_tokens:
            return "decode"
        return "mixed" if self.batch else "prefill"


class EngineRecorder:
    """The sections and steps of one engine; the engine calls it."""

    times_kernels: Final = True

    def __init__(self, engine: Engine, capacity: int, next_step: Callable[[], int]) -> None:
        """Record an engine, whose steps `next_step` numbers."""
        self.engine = engine
        self.log = HostLog(capacity)
        self.steps: list[StepFacts] = []
        self._next_step = next_step
        self._by_number: dict[int, StepFacts] = {}
        self._current: int | None = None
        self._last_ns = 0

    def begin(self) -> None:
        """Time begins to count for the first section of a call."""
        self._last_ns = self.log.begin(threading.get_native_id())

    def launching(self, scheduled: Sequence[ScheduledSequence]) -> int:
        """The launch of a step begins; returns its number, and what follows belongs to it."""
        number = self._next_step()
        step = StepFacts(number, self._last_ns, scheduled)
        self.steps.append(step)
        self._by_number[number] = step
        self._current = number
        set_trace_step(number)
        return number

    def collecting(self, step: int | None) -> None:
        """What follows belongs to a step that was launched before."""
        self._current = step
        set_trace_step(step)

    def lap(self, section: int, copied_bytes: int = 0) -> None:
        """A section ends, and the next begins; outside of steps nothing is recorded."""
        if self._current is None:
            return
        self._last_ns = self.log.lap(section, self._current, copied_bytes)

    def end_step(self) -> None:
        """The step whose outputs were collected has ended."""
        if self._current is not None:
            step = self._by_number.pop(self._current, None)
            if step is not None:
                step.end_ns = self._last_ns
        self._current = None
        set_trace_step(None)
