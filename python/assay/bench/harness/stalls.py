"""Where the time of samples went: computing, in the kernel, waiting for a core, or idle.

A figure without this says how fast, not why it is no faster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.answers import data_of
from assay.bench.harness.run_queue import waited_seconds


@dataclass(frozen=True, slots=True)
class Stalls:
    """Core-seconds of the samples of our code; shares are of all cores that we may use."""

    wall_s: float
    cores: int
    user_s: float
    system_s: float
    run_queue_s: float | None
    """Ready to run while other programs had the core; None where the system does not say."""
    device_s: float | None = None
    """Seconds in which a GPU computed; None on a CPU."""

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the core-seconds, and of the wall time for a GPU; the rest is idle.

        >>> Stalls(1.0, 2, 1.5, 0.1, 0.2).shares["idle"]
        0.1
        """
        whole = max(self.wall_s * self.cores, 1e-9)
        parts = {
            "computing": self.user_s,
            "in the kernel": self.system_s,
            "waiting for a core": self.run_queue_s or 0.0,
        }
        shares = {name: min(seconds / whole, 1.0) for name, seconds in parts.items()}
        shares["idle"] = round(max(0.0, 1.0 - sum(shares.values())), 12)
        if self.device_s is not None:
            shares["on the GPU"] = min(self.device_s / max(self.wall_s, 1e-9), 1.0)
        return shares

    @property
    def busy(self) -> float:
        """The share of the machine that our code kept busy: of the GPU where there is one."""
        shares = self.shares
        return shares.get("on the GPU", shares["computing"] + shares["in the kernel"])

    def __add__(self, other: Stalls) -> Stalls:
        return Stalls(
            self.wall_s + other.wall_s,
            self.cores,
            self.user_s + other.user_s,
            self.system_s + other.system_s,
            _sum(self.run_queue_s, other.run_queue_s),
            _sum(self.device_s, other.device_s),
        )

    def to_data(self) -> dict[str, Any]:
        """As plain data, with the shares."""
        return {
            **data_of(self, "wall_s cores user_s system_s run_queue_s device_s"),
            "shares": self.shares,
        }


def from_data(data: Mapping[str, Any]) -> Stalls:
    """What `Stalls.to_data` gave."""
    names = ("wall_s", "cores", "user_s", "system_s", "run_queue_s", "device_s")
    return Stalls(**{name: data[name] for name in names})


class StallMeter:
    """Adds up the samples between `begin` and `end`."""

    def __init__(self, *, on_gpu: bool = False) -> None:
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._total = Stalls(0.0, self._cores, 0.0, 0.0, 0.0, 0.0 if on_gpu else None)
        self._start = _now()

    def begin(self) -> None:
        """A sample begins."""
        self._start = _now()

    def end(self, device_s: float | None = None) -> None:
        """A sample has ended, in which a GPU computed for so many seconds."""
        wall, user, system, queue = _now()
        wall0, user0, system0, queue0 = self._start
        waited = None if queue is None or queue0 is None else max(0.0, queue - queue0)
        self._total += Stalls(
            wall - wall0, self._cores, user - user0, system - system0, waited, device_s
        )

    @property
    def total(self) -> Stalls:
        """All samples so far."""
        return self._total


def _now() -> tuple[float, float, float, float | None]:
    spent = os.times()
    return (
        time.perf_counter(),
        spent.user + spent.children_user,
        spent.system + spent.children_system,
        waited_seconds(),
    )


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
