"""A sample: one device at one moment; and the header of a recording."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FORMAT: Final = 1
"""The version of the stored layout."""

Value = float | int | str


@dataclass(slots=True)
class Reading:
    """What a source read of one device at one tick."""

    source: str
    device: str
    index: int
    name: str
    values: dict[str, Value]
    processes: list[dict[str, Any]] | None = None
    series: dict[str, float] | None = None
    """Every series of an endpoint, by its name with labels."""


@dataclass(slots=True)
class Sample:
    """A reading with its time and the run it belongs to."""

    realtime_ns: int
    monotonic_ns: int
    tick: int
    run: str
    workload: str | None
    fingerprint: str | None
    phase: str | None
    reading: Reading

    def row(self) -> dict[str, Any]:
        """The columns that have a value, by name."""
        reading = self.reading
        row: dict[str, Any] = {
            "realtime_ns": self.realtime_ns,
            "monotonic_ns": self.monotonic_ns,
            "tick": self.tick,
            "run": self.run,
            "workload": self.workload,
            "fingerprint": self.fingerprint,
            "phase": self.phase,
            "source": reading.source,
            "device": reading.device,
            "index": reading.index,
            "name": reading.name,
            **reading.values,
            "processes": reading.processes,
            "series": reading.series,
        }
        return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that a device does not have, or could not be read, and why."""

    source: str
    device: str
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source} {self.device}: {self.field}: {self.reason}"


@dataclass(slots=True)
class RunHeader:
    """What is known of a recording as a whole."""

    run: str
    workload: str | None
    fingerprint: str | None
    hostname: str
    rate_hz: float
    fast_only: bool
    versions: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def to_json(data: Mapping[str, Any]) -> str:
    """One line of JSON; NaN and infinities become null."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
