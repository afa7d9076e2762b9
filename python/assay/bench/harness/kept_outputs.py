"""Whether outputs are kept from run to run: each data set is run when it is new, and once more.

Both runs are of the same data, so that it does not matter what work other data are, and both begin
with the caches of the CPU swept: data that are hot there are no work saved by the program. Which of
the two a busy machine slows down is chance, so that most pairs must be beyond the bar, however far.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from assay.bench.harness.statistics import median, median_interval
from assay.runtime.fingerprint import last_level_cache_bytes
from assay.workloads.contract import DataSet

TIMES_AT_MOST: Final = 1.2
"""An honest program takes as long again; what clocks and page tables vary by is less."""
TIMES_OF_PROCESSES: Final = 1.05
"""The same of programs of which every run is a process of its own: page tables begin anew."""
_SECONDS: Final = 8.0
"""About as long as the runs on new data and those after them may take together."""
_FEWEST: Final = 6
"""Data sets: fewer give no confidence interval of the median."""
_MOST: Final = 25
_LEAST_S: Final = 1e-6
"""Clocks may read no time at all, and times are divided by each other."""
_TOLD_CPU_S: Final = 1e-3
"""Programs that wait for a GPU or sleep need less, of which the CPU time says nothing."""
CPU_CLOCK: Final = time.process_time
"""As it was before any program of others was imported, which could replace it."""
_CACHE_BYTES: Final = 64 << 20
"""Where the system does not say how large the cache is."""


class KeptOutputs:
    """Runs a program on data that are new to it, and on each of them again."""

    def __init__(
        self,
        load: Callable[[DataSet], None],
        run: Callable[[], float],
        new_data: Callable[[], DataSet],
        cpu_clock: Callable[[], float] = CPU_CLOCK,
        times_at_most: float = TIMES_AT_MOST,
    ) -> None:
        """`run` returns what it took in seconds; `new_data` gives others at each call."""
        self._load = load
        self._run = run
        self._new_data = new_data
        self._cpu_clock = cpu_clock
        self._times_at_most = times_at_most
        self._swept = np.zeros(2 * (last_level_cache_bytes() or _CACHE_BYTES), np.uint8)

    def times_as_fast(self) -> float:
        """How many times as fast runs are on data that were seen before; 1 within noise.

        By the clock or by the CPU time, which no other program adds to; each ends as soon as the
        confidence interval of its median is known to be above the bar or not.
        """
        started = time.perf_counter()
        data = self._new_data()
        new = self._seconds(data)
        by_clock: list[float] = []
        by_cpu: list[float] = []
        most, may_miss = _MOST, _may_miss(_MOST)
        while True:
            # Between the two, so that whatever a generator leaves behind slows the second one.
            following = self._new_data()
            again = self._seconds(data)
            by_clock.append(new[0] / again[0])
            by_cpu.append(new[1] / again[1] if again[1] > _TOLD_CPU_S else 1.0)
            count = len(by_clock)
            if count == 1:
                most = round(_SECONDS / (time.perf_counter() - started))
                most = min(max(most, _FEWEST), _MOST)
                may_miss = _may_miss(most)
            above = [sum(ratio > self._times_at_most for ratio in by) for by in (by_clock, by_cpu)]
            for ratios, beyond in zip((by_clock, by_cpu), above, strict=True):
                if beyond >= most - may_miss:
                    return median(ratios)
            if count - max(above) > may_miss:
                return 1.0
            data, new = following, self._seconds(following)

    def _seconds(self, data: DataSet) -> tuple[float, float]:
        """Seconds by the clock and of CPU time."""
        self._load(data)
        self._swept += 1
        before = self._cpu_clock()
        seconds = self._run()
        return max(seconds, _LEAST_S), max(self._cpu_clock() - before, _LEAST_S)


def cpu_of_children() -> float:
    """Seconds of CPU time of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _may_miss(count: int) -> int:
    """Of so many values, how many may be below a bar that the interval of their median is above.

    >>> _may_miss(6), _may_miss(25)
    (0, 7)
    """
    interval = median_interval([float(place) for place in range(count)])
    assert interval is not None
    return int(interval.low)
