"""A sink's own thread and bounded backlog: a slow or dead sink delays nothing but itself."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.observe.telemetry.sample import Sample
from assay.observe.telemetry.sinks.sink import RejectedError, RetryLaterError, Sink, Summary

_LOGGER: Final = logging.getLogger("assay.telemetry")

BACKLOG: Final = 20_000
"""Samples that wait for a sink at most: some 20 MB, hours of one GPU at 1 Hz."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _CLOSING_PAUSE_S = 0.25, 30.0, 0.5
_SAID_EVERY_S: Final = 60.0


@dataclass(slots=True)
class SinkStatus:
    """Counts of one sink: offered = acknowledged + backlog + dropped + rejected."""

    name: str
    offered: int = 0
    acknowledged: int = 0
    backlog: int = 0
    dropped: int = 0
    """Lost because the backlog was full."""
    rejected: int = 0
    """Lost because the sink refused them for good."""
    retries: int = 0
    error: str | None = None
    """The last failure; None since the last success."""

    def sentence(self) -> str | None:
        """What went wrong, in words; None where everything was delivered."""
        parts = []
        if self.dropped:
            parts.append(f"{self.dropped:,} samples dropped, for the backlog was full")
        if self.rejected:
            parts.append(f"{self.rejected:,} samples refused by the sink")
        if self.backlog:
            parts.append(f"{self.backlog:,} samples not delivered")
        if not parts:
            return None
        why = f" ({self.error})" if self.error else ""
        return f"sink {self.name}: {', '.join(parts)}{why}"


class Pump:
    """Carries samples from the sampler to one sink."""

    def __init__(self, sink: Sink, backlog: int = BACKLOG) -> None:
        if backlog < 1:
            raise ValueError(f"backlog: expected 1 or more, got {backlog}")
        self.sink = sink
        self._limit = backlog
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Sample]] = deque()
        self._in_flight: list[Sample] = []
        self._status = SinkStatus(sink.name)
        self._closing = False
        self._is_abandoned = False
        # Its own: sinks must not disturb the random numbers of the program they run in.
        self._random = random.Random()
        self._said_s = float("-inf")
        self.cpu_s = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"assay-telemetry-sink-{sink.name}"[:60], daemon=True
        )

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def offer(self, samples: Sequence[Sample]) -> None:
        """Queue samples; never waits. A full backlog drops the oldest, which are counted."""
        now_s = time.monotonic()
        with self._changed:
            self._status.offered += len(samples)
            self._waiting.extend((now_s, sample) for sample in samples)
            over = len(self._waiting) + len(self._in_flight) - self._limit
            # A batch that is being written may be durable already: it is not dropped.
            over = min(over, len(self._waiting))
            for _ in range(over):
                self._waiting.popleft()
            if over > 0:
                self._status.dropped += over
                self._say_dropped(now_s)
            if len(self._waiting) >= self.sink.batch_samples or len(self._waiting) == len(samples):
                self._changed.notify()

    def status(self) -> SinkStatus:
        """The counts now."""
        with self._changed:
            self._status.name = self.sink.name
            self._status.backlog = len(self._waiting) + len(self._in_flight)
            sink_status = SinkStatus(
                **{name: getattr(self._status, name) for name in _STATUS_FIELDS}
            )
        return sink_status

    def close(self, deadline_s: float, summary: Summary) -> SinkStatus:
        """Deliver what waits, until the monotonic deadline; the rest is counted as backlog."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(max(deadline_s - time.monotonic(), 0.0))
        status = self.status()
        if not self._thread.is_alive():
            summary.sinks = [_as_data(status)]
            try:
                self.sink.close(summary)
            # The samples are durable; a sink that cannot say goodbye must not hide that.
            except Exception as error:
                status.error = str(error) or type(error).__name__
        else:
            with self._changed:
                # The thread may be stuck in a write; it gives up when that returns.
                self._is_abandoned = True
                self._changed.notify()
        return status

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while (batch := self._take()) is not None:
            begun = time.thread_time()
            wait_s: float | None = None
            try:
                self.sink.write(batch)
            except RejectedError as error:
                self._settle(rejected=len(batch), error=str(error))
            # Whatever a sink raises, its samples are kept and the others are not affected.
            except Exception as error:
                wait_s = pause_s * self._random.uniform(0.8, 1.2)
                if isinstance(error, RetryLaterError) and error.seconds is not None:
                    wait_s = error.seconds
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                self._fail(str(error) or type(error).__name__)
            else:
                pause_s = _FIRST_PAUSE_S
                self._settle(acknowledged=len(batch))
            self.cpu_s += time.thread_time() - begun
            if wait_s is not None:
                self._pause(wait_s)

    def _take(self) -> list[Sample] | None:
        """The batch that failed before, or the next; None when all is delivered at the end."""
        with self._changed:
            if self._is_abandoned:
                return None
            if self._in_flight:
                return self._in_flight
            while True:
                if self._waiting:
                    left_s = self._waiting[0][0] + self.sink.batch_s - time.monotonic()
                    is_full = len(self._waiting) >= self.sink.batch_samples
                    if is_full or self._closing or left_s <= 0:
                        break
                    self._changed.wait(left_s)
                elif self._closing:
                    return None
                else:
                    self._changed.wait()
            count = min(len(self._waiting), self.sink.batch_samples)
            self._in_flight = [self._waiting.popleft()[1] for _ in range(count)]
            return self._in_flight

    def _settle(self, acknowledged: int = 0, rejected: int = 0, error: str | None = None) -> None:
        with self._changed:
            self._in_flight = []
            self._status.acknowledged += acknowledged
            self._status.rejected += rejected
            self._status.error = error

    def _fail(self, reason: str) -> None:
        with self._changed:
            first = self._status.error is None
            self._status.retries += 1
            self._status.error = " ".join(reason.split())
        if first:
            _LOGGER.warning("sink %s failed and is tried again: %s", self.sink.name, reason)

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; less when the recording is closing."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not self._is_abandoned and (left := deadline - time.monotonic()) > 0:
                if self._closing:
                    left = min(left, _CLOSING_PAUSE_S)
                    deadline = min(deadline, time.monotonic() + left)
                self._changed.wait(left)

    def _say_dropped(self, now_s: float) -> None:
        if now_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = now_s
            _LOGGER.warning(
                "sink %s is too slow: %d samples dropped so far, the oldest first",
                self.sink.name,
                self._status.dropped,
            )


_STATUS_FIELDS: Final = tuple(SinkStatus.__dataclass_fields__)


def _as_data(status: SinkStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in _STATUS_FIELDS}
