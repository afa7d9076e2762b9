"""The terms of a waterfall: where the wall time of a step went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

TERMS: Final[Mapping[str, str]] = {
    "floor": "the part of kernels that no kernel could be faster than",
    "kernel_inefficiency": "the rest of the kernels: time above their floor",
    "launch_gaps": "the device idles between kernels of a step while the host launches the next",
    "host_stalls": "the device idles while the host schedules, prepares inputs or handles outputs",
    "synchronization": "the device idles while the host waits for it, or streams wait for each other",
    "lost_overlap": "work that was to run beside other work ran alone: copies, other streams, collectives",
    "throttling": "kernels above their time because the clock was below the one of the prediction",
    "queueing": "work was ready and the device was busy with work of another process or request",
    "profiler_overhead": "time of the profiler itself, from its own records or measured overhead",
    "unknown": "what none of the others accounts for",
}
"""Every term in the order of a waterfall, and what it means."""

CODES: Final = {name: code for code, name in enumerate(TERMS)}
"""The number of a term: its place in the waterfall."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a waterfall: nanoseconds of wall time of one step."""

    name: str
    ns: float
    lo: float
    hi: float
    """Over the steps that the waterfall stands for."""
    rows: tuple[int, ...] = ()
    """Rows of the event table behind it, the longest first."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The terms of one step; they add up to `observed_ns` exactly."""

    step: int | None
    """The step, or None for a mean over several."""
    observed_ns: float
    terms: tuple[Term, ...]


def steps_alike(data: Mapping[str, Any]) -> int:
    """Steps of the phase and batch of the one that a diagnosis shows, as its JSON has them."""
    return sum(
        (step["phase"], step["batch"]) == (shown["phase"], shown["batch"])
        for shown in data["steps"]
        if shown["step"] == data["step"]
        for step in data["steps"]
        if step["rank"] == shown["rank"]
    )
