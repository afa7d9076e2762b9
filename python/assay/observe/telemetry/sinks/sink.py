"""What a sink is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from assay.observe.telemetry.sample import RunHeader, Sample


class RejectedError(Exception):
    """The sink will never take these samples; the others may still be delivered."""


class RetryLaterError(Exception):
    """The sink asks to be tried again after some seconds."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(slots=True)
class Summary:
    """How a recording ended, for sinks that keep it beside the samples."""

    missing: list[dict[str, str]] = field(default_factory=list)
    missed_ticks: int = 0
    sinks: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Sink(Protocol):
    """Takes batches of samples in a thread of its own.

    `write` returns when the batch is durable (on the disk, acknowledged by the server). Whatever it
    raises, the same batch is offered again later, so writing a batch twice must not double it;
    `RejectedError` gives the batch up.
    """

    name: str
    """As it is printed: without keys and passwords."""
    batch_s: float
    """Seconds for which samples are gathered into one batch."""
    batch_samples: int
    """Samples of a batch at most."""

    def open(self, header: RunHeader) -> None:
        """Get ready; raises InputError where the sink can never work."""

    def write(self, samples: Sequence[Sample]) -> None:
        """Make the samples durable."""

    def close(self, summary: Summary) -> None:
        """Finish; what was written stays."""
