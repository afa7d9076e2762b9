"""Ticks without drift: absolute deadlines on the monotonic clock, missed ones counted."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

NANOSECOND: Final = 1_000_000_000


class Clock(Protocol):
    """A clock to wait on; tests have a virtual one."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""

    def wait_until(self, deadline_ns: int, stop: threading.Event) -> bool:
        """Sleep until the deadline; True where `stop` was set first."""


class MonotonicClock:
    """The system's monotonic clock."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        return time.monotonic_ns()

    def wait_until(self, deadline_ns: int, stop: threading.Event) -> bool:
        """Sleep until the deadline; True where `stop` was set first."""
        while (left := deadline_ns - time.monotonic_ns()) > 0:
            if stop.wait(left / NANOSECOND):
                return True
        return stop.is_set()


class Ticker:
    """Counts intervals of `period_ns` from `start_ns`.

    Tick n is due at `start_ns + n * period_ns`, however late the ones before were, so that the
    average rate does not drift. Where reading took longer than an interval, the ticks that passed
    meanwhile are skipped and counted in `missed`; there is no burst to catch up.
    """

    def __init__(self, start_ns: int, period_ns: int, clock: Clock) -> None:
        if period_ns <= 0:
            raise ValueError(f"period_ns: expected more than 0, got {period_ns}")
        self.start_ns = start_ns
        self.period_ns = period_ns
        self.missed = 0
        self._clock = clock
        self._next = 0

    def wait(self, stop: threading.Event) -> int | None:
        """Sleep until the next tick and return its number; None where `stop` was set."""
        current = (self._clock.now_ns() - self.start_ns) // self.period_ns
        if current > self._next:
            self.missed += current - self._next
            self._next = current
        number = self._next
        if self._clock.wait_until(self.start_ns + number * self.period_ns, stop):
            return None
        self._next = number + 1
        return number
