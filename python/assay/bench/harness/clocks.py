"""How long calls take, by the clock of whatever does the work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from assay.runtime.hardware import Device

Call = Callable[[int], object]
"""Does piece of work number i; the number says whose turn it is among rotated inputs."""


class Clock(Protocol):
    """Runs calls and tells what one of them took, on average."""

    def measure(self, call: Call, first: int, count: int) -> float:
        """Make calls number `first` to `first + count - 1`; seconds of one, or what it told."""
        ...


class HostClock:
    """Calls that are over when they return."""

    def measure(self, call: Call, first: int, count: int) -> float:
        """Seconds of one call."""
        start = time.perf_counter_ns()
        for number in range(first, first + count):
            call(number)
        return (time.perf_counter_ns() - start) / count * 1e-9


class OneCore:
    """Keeps the thread on one core in its `with` block: that where it first was.

    So that moves between cores have no part in microseconds of the host. Systems that cannot hold a
    thread leave it free.
    """

    def __init__(self) -> None:
        """Choose no core yet."""
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


class OneCoreClock(HostClock):
    """Calls that are over when they return, all made on one core."""

    def __init__(self, core: OneCore) -> None:
        """Measure where others with the same core do."""
        self.core = core

    def measure(self, call: Call, first: int, count: int) -> float:
        """Seconds of one call."""
        with self.core:
            call(first)
            return super().measure(call, first, count)


class DeviceClock:
    """Calls that queue work on a device: marks before and after them in its stream are read.

    Nothing waits inside the measurement, so that it holds for devices that work while the host
    goes on, and for a device whose clock is virtual.
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


class ToldClock:
    """Calls that time or measure themselves, and return what they found."""

    def measure(self, call: Call, first: int, count: int) -> float:
        """The mean of what the calls returned."""
        total = 0.0
        for number in range(first, first + count):
            told = call(number)
            if not isinstance(told, (int, float)):
                raise TypeError(f"a call that measures itself returned {told!r}, not a number")
            total += told
        return total / count
