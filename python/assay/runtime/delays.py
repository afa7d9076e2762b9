"""Delays in stream order: a stream waits for as long as a word in device memory says.

The duration is read when the delay runs, so that a graph captured once serves every duration, zero
included. Causal profiling (`assay.diagnose.delays`) puts them before the nodes of a graph.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from assay.errors import InputError

if TYPE_CHECKING:
    from assay._native import Buffer
    from assay.runtime.hardware import Device

SLOT_BYTES: Final = 16
"""A slot is two words: nanoseconds to wait, and nanoseconds waited since they were set."""

MAX_DELAY_NS: Final = 10**9
"""Longer delays would run into the watchdog of a GPU, and no step has a use for them."""


class DelaySlots:
    """Durations of delays, in the memory of a device.

    >>> from assay.runtime import device
    >>> slots = DelaySlots(device("sim"), 1)
    >>> slots.set([2_000])
    >>> slots.queue(0)
    >>> slots.spent_ns()
    [2000]
    """

    def __init__(self, device: Device, count: int) -> None:
        """Allocate slots, all zero."""
        if count < 1:
            raise InputError(f"delays: expected at least 1 slot, got {count}")
        self.device: Final = device
        self.count: Final = count
        self.buffer: Final[Buffer] = device.allocate(SLOT_BYTES * count)
        self.set([0] * count)

    def set(self, durations_ns: Sequence[int]) -> None:
        """Set the duration of every slot, and the time spent so far to zero."""
        if len(durations_ns) != self.count:
            raise InputError(
                f"delays: expected {self.count} durations, got {len(durations_ns)}",
                "one for each slot, 0 for none",
            )
        for duration in durations_ns:
            if not 0 <= duration <= MAX_DELAY_NS:
                raise InputError(
                    f"delays: expected from 0 to {MAX_DELAY_NS:,} ns, got {duration:,}"
                )
        words = array("Q", [0]) * (2 * self.count)
        words[::2] = array("Q", durations_ns)
        self.device.upload("delays", words.tobytes(), self.buffer)

    def queue(self, slot: int, *, after: Sequence[Buffer] = (), label: str = "delay") -> None:
        """Delay the current stream by a slot's duration, in the order of work on some buffers."""
        if not 0 <= slot < self.count:
            raise InputError(f"delays: expected a slot below {self.count}, got {slot}")
        self.device.delay(label, self.buffer, SLOT_BYTES * slot, after)

    def spent_ns(self) -> list[int]:
        """How long each slot has delayed since `set`; waits for the device."""
        self.device.synchronize()
        words = array("Q", [0]) * (2 * self.count)
        self.device.download("delays", self.buffer, 0, memoryview(words).cast("B"))
        return words[1::2].tolist()


CALIBRATED_NS: Final = (20_000, 100_000, 500_000)
"""Durations that the overshoot is measured at."""


def overshoot_ns(device: Device, repeats: int = 9) -> int:
    """How much longer than asked for a delay takes: the median over a few durations.

    >>> from assay.runtime import device
    >>> overshoot_ns(device("sim"))
    0
    """
    slots = DelaySlots(device, 1)
    found = []
    for duration in CALIBRATED_NS * repeats:
        slots.set([duration])
        slots.queue(0)
        found.append(slots.spent_ns()[0] - duration)
    return round(median(found))
