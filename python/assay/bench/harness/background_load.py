"""CPU time that other processes use while a suite runs.

Load averages do not serve: they include our own threads and the suite that ran a minute ago.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)
"""Columns of a core's line that count idle time: `idle` and `iowait`."""
_COUNTED: Final = 8
"""Columns that count; `guest` and `guest_nice` are included in earlier ones."""


class BackgroundLoad:
    """Measures background load from its construction on."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy = _busy_seconds()
        self._own = _own_seconds()

    def cores(self) -> float | None:
        """Mean number of cores that other processes kept busy, among those we may use.

        None on systems other than Linux.
        """
        busy = _busy_seconds()
        if self._busy is None or busy is None:
            return None
        own = _own_seconds() - self._own
        passed = max(time.perf_counter() - self._start, 1e-3)
        return max(0.0, (busy - self._busy - own) / passed)


def _busy_seconds() -> float | None:
    """Seconds that the cores we may use were busy since boot."""
    try:
        lines = _STAT.read_text("ascii").splitlines()
    except OSError:
        return None
    usable = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for name, *numbers in (line.split() for line in lines):
        if name in usable:
            counted = list(map(int, numbers[:_COUNTED]))
            ticks += sum(counted) - sum(counted[column] for column in _IDLE)
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """CPU time of this process and of its child processes that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
