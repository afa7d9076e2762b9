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

    def read(self, now_s: float, *, fast_only: bool) -> Reading:
        """All fields that are due; what fails is listed and the rest is kept."""
        values: dict[str, Value] = {}
        processes: list[dict[str, Any]] | None = None
        for reader in list(self.readers):
            if not reader.is_due(now_s, fast_only=fast_only):
                if reader.held:
                    values.update(_known(reader._last))
                continue
            reader._due_s = now_s + reader.every_s - 1e-3
            begun = time.thread_time()
            try:
                found = dict(reader.read())
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
            listed: Any = found.pop("processes", None)
            if listed is not None:
                processes = listed
            reader._last = found
            values.update(_known(found))
        return Reading(self.source, self.device, self.index, self.name, values, processes)

    def costs(self) -> dict[str, float]:
        """CPU seconds by reader."""
        return {reader.name: reader.cpu_s for reader in self.readers}


def total_costs(devices: Sequence[Device]) -> dict[str, float]:
    """CPU seconds by reader, summed over devices."""
    total: dict[str, float] = {}
    for device in devices:
        for name, seconds in device.costs().items():
            total[name] = total.get(name, 0.0) + seconds
    return total


def _known(values: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value is not None}
