"""How much of the machine work of others takes while a suite runs.

Load averages cannot tell: they remember the suite that ran a minute ago, and count our own threads.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)
"""Which of a core's numbers count its idle time: nothing to do, and waiting for a disk."""
_COUNTED: Final = 8
"""The numbers after these are part of earlier ones: time that guests of the machine had."""


class Others:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def cores(self) -> float | None:
        """Cores that others kept busy on average, of those that this process may use.

        None where the system does not tell: only Linux does.
        """
        busy = _busy_seconds()
        if self._busy is None or busy is None:
            return None
        own = _own_seconds() - self._own
        passed = max(time.perf_counter() - self._start, 1e-3)
        return max(0.0, (busy - self._busy - own) / passed)


def _busy_seconds() -> float | None:
    """Seconds that the cores we may use were busy since the machine started."""
    try:
        lines = _STAT.read_text("ascii").splitlines()
    except OSError:
        return None
    usable = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for name, *numbers in (line.split() for line in lines):
        if name in usable:
            counted = list(map(int, numbers[:_COUNTED]))
            ticks += sum(counted) - sum(counted[place] for place in _IDLE)
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Processor time of this process and of those it started that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
