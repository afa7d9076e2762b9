"""Clocks that time calls: the host's, a device's, or the call's own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from assay.runtime.hardware import Device

Call = Callable[[int], object]
"""Makes call number i; the number selects one of the rotated inputs."""


class Clock(Protocol):
    """Makes calls and returns the mean of what one of them took."""

    def measure(self, call: Call, first: int, count: int) -> float:
        """Make calls number `first` to `first + count - 1`; the mean seconds, or reported value."""
        ...


class HostClock:
    """Wall-clock time of synchronous calls."""

    def measure(self, call: Call, first: int, count: int) -> float:
        """Seconds of one call."""
        start = time.perf_counter_ns()
        for number in range(first, first + count):
            call(number)
        return (time.perf_counter_ns() - start) / count * 1e-9


class PinnedCore:
    """Pins the thread to one core in its `with` block: the core that it first ran on.

    Keeps migrations between cores out of microsecond timings. Does nothing on systems without
    thread affinity.
    """

    def __init__(self) -> None:
        """The core is chosen on first use."""
        self._core: int | None = None
        self._allowed: set[int] = set()

    def __enter__(self) -> None:
        if not hasattr(os, "sched_setaffinity"):
            return
        self._allowed = os.sched_getaffinity(0)
        if self._core is None:
            fields = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
            self._core = int(fields[36])
        os.sched_setaffinity(0, {self._core})

    def __exit__(self, *ended: object) -> None:
        if self._allowed:
            os.sched_setaffinity(0, self._allowed)


class PinnedCoreClock(HostClock):
    """Wall-clock time of synchronous calls on a pinned core, after one warm-up call."""

    def __init__(self, core: PinnedCore) -> None:
        """Measure on this core, which other clocks may share."""
        self.core = core

    def measure(self, call: Call, first: int, count: int) -> float:
        """Seconds of one call."""
        with self.core:
            call(first)
            return super().measure(call, first, count)


class DeviceClock:
    """Device time of calls that queue work, by events before and after them in the stream.

    Nothing synchronizes inside the measurement, so it is valid for asynchronous devices and for
    a device with a virtual clock.
    """

    def __init__(self, device: Device) -> None:
        """Measure on the device's current stream."""
        self.device = device

    def measure(self, call: Call, first: int, count: int) -> float:
        """Seconds of device time of one call."""
        stream = self.device.current_stream()
        start = stream.record()
        for number in range(first, first + count):
            call(number)
        end = stream.record()
        end.synchronize()
        return end.elapsed_ns(start) / count * 1e-9


class SelfTimedClock:
    """Calls that measure themselves and return the value."""

    def measure(self, call: Call, first: int, count: int) -> float:
        """The mean of the returned values."""
        total = 0.0
        for number in range(first, first + count):
            value = call(number)
            if not isinstance(value, (int, float)):
                raise TypeError(f"a self-timed call returned {value!r}, expected a number")
            total += value
        return total / count
