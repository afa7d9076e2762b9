"""The log of a device's allocations, and what another pool would have made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from assay._native import replay_allocations

CrossStream = Literal["grow first", "wait first", "never"]


class LoggedRequest(NamedTuple):
    """One line of a log."""

    time_ns: int
    action: str
    """allocate, refuse or free"""
    stream: int
    tenant: int
    nbytes: int
    address: int


class ReplayReport(NamedTuple):
    """What a policy made of a log; the same log and policy give the same figures every time."""

    allocations: int
    refusals: int
    frees: int
    skipped_frees: int
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_held_bytes: int
    device_allocations: int
    device_frees: int
    recorded_events: int
    stream_waits: int
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class AllocationLog:
    """Every request and free that a device saw, in order; `Device.take_allocation_log` gives it."""

    text: str
    """comma-separated, with a header: what is stored and read back"""

    @property
    def requests(self) -> list[LoggedRequest]:
        """The lines, parsed."""
        rows = (line.split(",") for line in self.text.splitlines()[1:])
        return [
            LoggedRequest(int(time), action, int(stream), int(tenant), int(nbytes), int(address))
            for time, action, stream, tenant, nbytes, address in rows
        ]

    def replay(
        self,
        *,
        capacity_bytes: int,
        slab_bytes: int | None = None,
        small_limit_bytes: int | None = None,
        cross_stream: CrossStream = "grow first",
        direct: bool = False,
        touch: bool = True,
    ) -> ReplayReport:
        """Run the log against another pool on a simulated device.

        `direct` asks the bare device for every allocation; `small_limit_bytes=0` turns size
        classes off; `touch` queues a fill before each free, so that streams have work to order.
        """
        return ReplayReport(
            **replay_allocations(
                self.text,
                capacity_bytes=capacity_bytes,
                slab_bytes=slab_bytes,
                small_limit_bytes=small_limit_bytes,
                cross_stream=cross_stream,
                direct=direct,
                touch=touch,
            )
        )
