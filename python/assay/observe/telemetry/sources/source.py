"""What a source is, and readers of fields that fail and cost on their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Reading, Value

ONCE = math.inf
"""The period of a reader that reads once."""

BUDGET = 0.0025
"""Share of a core that reading the devices of a source may take at 1 Hz.

Calls of a driver cost from ten microseconds to a millisecond each, and a machine may have sixteen
GPUs. Where reading everything costs more, the elastic readers read more rarely.
"""

_LONGEST_S = 30.0
"""The longest period that an elastic reader gets."""

_SETTLED = 5
"""Reads after which the cost of a reader is known."""


class Source(Protocol):
    """Reads one or more devices; each source has a thread of its own."""

    name: str

    def read(self, *, fast_only: bool) -> Sequence[Reading]:
        """What can be read now; with `fast_only` nothing that is slow to read."""

    def costs(self) -> Mapping[str, float]:
        """CPU seconds by group of fields."""

    def close(self) -> None:
        """Give back what the source holds."""


class UnsupportedFieldError(Exception):
    """A device will never have a field: do not ask again."""


@dataclass(slots=True)
class FieldReader:
    """Reads a few fields of one device that belong together."""

    name: str
    fields: tuple[str, ...]
    read: Callable[[], Mapping[str, Value | None]]
    every_s: float = 0.0
    """Seconds between reads; 0 reads at every tick."""
    fast: bool = False
    """Whether it is read above the rate up to which everything is read."""
    held: bool = False
    """Whether its values are repeated between reads, as limits are."""
    elastic: bool = False
    """Whether it may be read more rarely where reading is expensive."""
    cpu_s: float = 0.0
    reads: int = 0
    _due_s: float = -math.inf
    _last: Mapping[str, Value | None] = field(default_factory=dict)

    def is_due(self, now_s: float, *, fast_only: bool) -> bool:
        """Whether to read at `now_s`; limits are read once in any case."""
        if fast_only and not self.fast:
            return self.held and self.reads == 0
        return now_s >= self._due_s


@dataclass(slots=True)
class Device:
    """A device and the readers of its fields."""

    source: str
    device: str
    index: int
    name: str
    readers: list[FieldReader]
    gaps: Gaps
    permanent: Callable[[BaseException], bool] = lambda error: False
    """Whether an error means that the device will never have the field."""
    budget: float = BUDGET
    """Share of a core that reading may take, at 1 Hz."""
    stretch: float = 1.0
    """By how much the periods of elastic readers are longer than they would be."""

    def read(self, now_s: float, *, fast_only: bool) -> Reading:
        """All fields that are due; what fails is listed and the rest is kept."""
        values: dict[str, Value] = {}
        processes: list[dict[str, Any]] | None = None
        for reader in list(self.readers):
            if not reader.is_due(now_s, fast_only=fast_only):
                if reader.held:
                    values.update(_known(reader._last))
                continue
            stretch = self.stretch if reader.elastic and not fast_only else 1.0
            every_s = reader.every_s if stretch == 1.0 else max(reader.every_s, 1.0) * stretch
            reader._due_s = now_s + every_s - 1e-3
            begun = time.thread_time()
            try:
                answered = dict(reader.read())
            # One broken field of a driver must not lose the sample, whatever it raises.
            except Exception as error:
                reason = str(error) or type(error).__name__
                for name in reader.fields:
                    self.gaps.note(self.source, self.device, name, reason)
                if isinstance(error, UnsupportedFieldError) or self.permanent(error):
                    self.readers.remove(reader)
                continue
            finally:
                reader.cpu_s += time.thread_time() - begun
                reader.reads += 1
            listed: Any = answered.pop("processes", None)
            if listed is not None:
                processes = listed
            reader._last = answered
            values.update(_known(answered))
            if reader.reads == _SETTLED and not fast_only:
                self._adjust()
        return Reading(self.source, self.device, self.index, self.name, values, processes)

    def _adjust(self) -> None:
        """Choose how rarely elastic readers read, so that the budget holds."""
        fixed = elastic = 0.0
        for reader in self.readers:
            if reader.reads >= _SETTLED:
                cost = reader.cpu_s / reader.reads / max(reader.every_s, 1.0)
                elastic += cost * reader.elastic
                fixed += cost * (not reader.elastic)
        if fixed + elastic <= self.budget or elastic == 0.0:
            return
        self.stretch = min(elastic / max(self.budget - fixed, self.budget / 10), _LONGEST_S)
        names = ", ".join(reader.name for reader in self.readers if reader.elastic)
        self.gaps.note(
            self.source,
            self.device,
            "rate",
            f"reading costs {fixed + elastic:.2%} of a core, more than {self.budget:.2%}: {names} "
            f"are read every {self.stretch:.0f} s",
        )

    def costs(self) -> dict[str, float]:
        """CPU seconds by reader."""
        return {reader.name: reader.cpu_s for reader in self.readers}


class DeviceSource:
    """A source of devices that are read one after another: what all vendors have in common."""

    devices: list[Device]

    def __init__(self, clock: Callable[[], float]) -> None:
        """The devices are opened by the vendor's class."""
        self._clock = clock
        self.devices = []

    def read(self, *, fast_only: bool) -> Sequence[Reading]:
        """One reading a device."""
        now_s = self._clock()
        return [device.read(now_s, fast_only=fast_only) for device in self.devices]

    def costs(self) -> Mapping[str, float]:
        """CPU seconds by group of fields, summed over devices."""
        total: dict[str, float] = {}
        for device in self.devices:
            for name, seconds in device.costs().items():
                total[name] = total.get(name, 0.0) + seconds
        return total


def _known(values: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value is not None}
