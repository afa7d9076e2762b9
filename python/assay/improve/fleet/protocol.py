"""What a staged promotion needs of a fleet: start groups at the same time, measure, go back, keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from assay.errors import AssayError, InputError
from assay.improve.journal.journaled_engine import RollbackError
from assay.load.workloads.measurement import Setting


class ReplicaRefusedError(InputError):
    """A replica cannot take part: it is unreachable, unlike the others, or failing already."""


class ReplicaFailedError(RollbackError):
    """A replica did not take the change, or does not report it; the fleet goes back."""


class ReplicaLostError(AssayError):
    """A replica or its agent is gone; the others go back, and it does by its own journal."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Sample:
    """A window of one replica."""

    value: float
    """The objective's figure; 0 where nothing was measured."""
    requests: int
    errors: int = 0
    held: int = 0
    """Requests within the service levels; all that succeeded where there are none."""
    figures: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Read back from the engine."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Hashes of greedy answers by number of the request; equal requests should have equal ones."""


class Fleet(Protocol):
    """Replicas under control; a name is the address of a replica."""

    @property
    def names(self) -> Sequence[str]:
        """The replicas."""

    def start(self, changed: Mapping[str, bool]) -> None:
        """Start replicas anew at the same time, each with the change or without it.

        Returns when all serve and state the settings asked for; at most as many are out at once as
        the capacity guard allows. Raises `ReplicaFailedError` or `ReplicaLostError`.
        """

    def measure(self, names: Collection[str], load: float = 1.0) -> dict[str, Sample]:
        """A window of the workload on each of these replicas at the same time.

        `load` multiplies the rate or the concurrency.
        """

    def revert(self, why: str) -> list[str]:
        """Bring every replica that can be reached to its start; what could not be done, in words."""

    def keep(self, why: str) -> None:
        """Make the change what every replica comes back to, once it is in force on all."""
