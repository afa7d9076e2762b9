"""Device time of steps on a GPU, and the time between two steps in which it had nothing to do.

A step that is launched while the one before it runs begins when that one ends. Where the host is late,
the device waits: that time is the host's. Two events a step measure both on the device's own clock.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from assay.runtime import Device
from assay.runtime.events import Event

MOST_UNREAD: Final = 64
"""Steps whose times are kept: nobody reads those of a model that drafts."""


class StepTimes(NamedTuple):
    """Nanoseconds since the last reading."""

    device_ns: int
    """In which steps ran, gaps between their kernels included."""
    idle_ns: int
    """From the end of a step to the beginning of the next, while requests were under way."""


class StepClock:
    """Events around the steps of one engine; nothing on devices that compute as they are called.

    Nor on the stream of a task, where whatever is queued waits for a grant: the scheduler measures
    what models that share a device use.
    """

    def __init__(self, device: Device) -> None:
        """Record on the default stream of the device."""
        self._device = device
        self._measures = device.capabilities.is_gpu
        self._begin: Event | None = None
        self._ended: deque[tuple[Event, Event, bool]] = deque(maxlen=MOST_UNREAD)
        """Beginning and end of steps that are not read yet, and whether each had to follow at once."""
        self._last_end: Event | None = None

    def begin(self) -> None:
        """A step is about to be queued."""
        stream = self._device.current_stream()
        is_timed = self._measures and stream is self._device.default_stream
        self._begin = stream.record() if is_timed else None

    def end(self, *, follows: bool) -> None:
        """It is queued; `follows` says that requests were under way before it."""
        if self._begin is not None:
            end = self._device.default_stream.record()
            self._ended.append((self._begin, end, follows))

    def read(self) -> StepTimes:
        """The times of steps that have ended, each once."""
        device_ns = idle_ns = 0
        while self._ended and self._ended[0][1].query():
            begin, end, follows = self._ended.popleft()
            device_ns += end.elapsed_ns(begin)
            if follows and self._last_end is not None:
                idle_ns += max(begin.elapsed_ns(self._last_end), 0)
            self._last_end = end
        return StepTimes(device_ns, idle_ns)
