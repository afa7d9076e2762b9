"""The sampler: one thread a source, all on the same ticks."""

from __future__ import annotations

import math
import platform
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from assay.errors import InputError
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Reading
from assay.observe.telemetry.sources.source import Source

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


HIGHEST_RATE_HZ: Final = 50.0
FAST_ABOVE_HZ: Final = 2.0
"""Above this rate only the fast fields are read."""


def check_rate(rate_hz: float) -> float:
    """The rate, if it is one that can be sampled."""
    if not (math.isfinite(rate_hz) and 0 < rate_hz <= HIGHEST_RATE_HZ):
        raise InputError(
            f"rate: expected more than 0 and at most {HIGHEST_RATE_HZ:g} Hz, got {rate_hz:g}"
        )
    return rate_hz


class Sampler:
    """Reads the sources at a fixed rate and hands each its samples on.

    A source that is slow misses its own ticks, which are counted; it delays no other source.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        deliver: Callable[[int, int, int, Sequence[Reading]], None],
        gaps: Gaps,
        rate_hz: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self.rate_hz = check_rate(rate_hz)
        self.fast_only = rate_hz > FAST_ABOVE_HZ
        self._sources = list(sources)
        self._deliver = deliver
        self._gaps = gaps
        self._clock = clock or MonotonicClock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tickers: dict[str, Ticker] = {}
        self._cpu_s: dict[int, float] = {}

    def start(self) -> None:
        """Begin at tick 0, at once."""
        start_ns = self._clock.now_ns()
        period_ns = round(NANOSECOND / self.rate_hz)
        for number, source in enumerate(self._sources):
            # A source that is slow by nature is read at every so many ticks.
            least_s: float = getattr(source, "least_period_s", 0.0)
            every = max(1, math.ceil(round(least_s * NANOSECOND) / period_ns))
            ticker = Ticker(start_ns, period_ns * every, self._clock)
            self._tickers[f"{source.name}-{number}"] = ticker
            thread = threading.Thread(
                target=self._run,
                args=(number, source, ticker, every),
                name=f"assay-telemetry-{source.name}",
                daemon=True,
            )
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop reading; a source that hangs in its driver or server is left behind."""
        self._stop.set()
        deadline = time.monotonic() + timeout_s
        threads: list[threading.Thread | None] = [*self._threads]
        threads += [None] * (len(self._sources) - len(threads))
        for thread, source in zip(threads, self._sources, strict=True):
            if thread is not None:
                thread.join(max(deadline - time.monotonic(), 0.0))
            if thread is not None and thread.is_alive():
                self._gaps.note(
                    source.name,
                    platform.node(),
                    "close",
                    f"the source did not return within {timeout_s:g} s and was left behind",
                )
            else:
                source.close()

    @property
    def missed(self) -> dict[str, int]:
        """Ticks that were missed, by source; those without are left out."""
        return {name: ticker.missed for name, ticker in self._tickers.items() if ticker.missed}

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the sampling threads."""
        return sum(self._cpu_s.values())

    def costs(self) -> dict[str, float]:
        """CPU seconds by source and group of fields."""
        return {
            f"{source.name}.{name}": seconds
            for source in self._sources
            for name, seconds in source.costs().items()
        }

    def _run(self, number: int, source: Source, ticker: Ticker, every: int) -> None:
        while (tick := ticker.wait(self._stop)) is not None:
            realtime_ns, monotonic_ns = time.time_ns(), self._clock.now_ns()
            try:
                readings = source.read(fast_only=self.fast_only)
            # A source that breaks as a whole is listed, and tried again at the next tick.
            except Exception as error:
                reason = str(error) or type(error).__name__
                self._gaps.note(source.name, platform.node(), "all fields", reason)
                readings = []
            if readings:
                self._deliver(realtime_ns, monotonic_ns, tick * every, readings)
            self._cpu_s[number] = time.thread_time()
