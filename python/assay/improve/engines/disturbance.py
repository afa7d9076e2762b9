"""What disturbed a window: other processes, stolen CPU time, clocks held down."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.observe.telemetry import throttle

MIN_WINDOWS: Final = 4
"""Windows before this one that say what is usual on the machine."""
MAX_CHANGE: Final = 0.25
"""Share of the machine's CPU time that others may take beyond what is usual."""
HISTORY: Final = 32


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since the machine started, over all cores, and those of this process and the engine."""

    busy: float
    stolen: float
    own: float
    at: float
    """The monotonic clock."""


class DisturbanceMeter:
    """Reads what else ran, before and after each window.

    A steady load of other processes is the machine as it is, and paired blocks meet it on both
    sides. A window counts as disturbed where others took clearly more than in the windows before.
    """

    def __init__(
        self,
        gpu: int | None = None,
        root: Path = Path("/"),
        engine_cpu_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Watch this machine, and one of its GPUs.

        `engine_cpu_s` is the CPU time of an engine in processes of its own, which is not others'.
        """
        self._stat = root / "proc/stat"
        self._engine_cpu_s = engine_cpu_s
        self._cores = os.cpu_count() or 1
        self._before: CpuTimes | None = None
        self._others: deque[float] = deque(maxlen=HISTORY)
        self._nvml, self._handle, self.gap = _nvml(gpu)
        self.shares: dict[str, float] = {}
        """Of the last window: what others took of the machine's CPU time."""

    def begin(self) -> None:
        """Start of a window."""
        self._before = self._read()

    def end(self) -> tuple[str, ...]:
        """End of a window; what disturbed it, in words."""
        disturbances = []
        before, after = self._before, self._read()
        self.shares = {}
        if before is not None and after is not None and after.at > before.at:
            room = (after.at - before.at) * self._cores
            others = max(after.busy - before.busy - (after.own - before.own), 0.0) / room
            stolen = max(after.stolen - before.stolen, 0.0) / room
            self.shares = {"other_cpu_share": others, "stolen_cpu_share": stolen}
            taken = others + stolen
            usual = statistics.median(self._others) if self._others else taken
            if len(self._others) >= MIN_WINDOWS and taken - usual > MAX_CHANGE:
                disturbances.append(
                    f"other processes took {taken:.0%} of the CPU time, usually {usual:.0%}"
                )
            self._others.append(taken)
        disturbances += self._throttled()
        return tuple(disturbances)

    def _read(self) -> CpuTimes | None:
        """CPU times now; None on a system without /proc/stat."""
        try:
            first = self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()
        except OSError:
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        # user nice system idle iowait irq softirq steal
        values = [int(count) / ticks for count in first[1:9]]
        times = os.times()
        own = times.user + times.system + self._engine_cpu_s()
        busy = values[0] + values[1] + values[2] + values[5] + values[6]
        return CpuTimes(busy, values[7], own, time.monotonic())

    def _throttled(self) -> list[str]:
        if self._nvml is None:
            return []
        try:
            reasons = self._nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        except Exception as error:
            # The library raises classes of its own, which depend on its version.
            self.gap = f"throttling of the GPU is unknown: {error}"
            self._nvml = None
            return []
        mask = throttle.from_nvidia(reasons)
        # A power cap is how a GPU runs under full load; it holds on both sides of a pair.
        mask &= ~throttle.Throttle.POWER_CAP
        if not throttle.is_limited(mask):
            return []
        limits = throttle.words(mask & ~throttle.HARMLESS)
        return [f"the GPU's clocks were held down: {', '.join(limits)}"]


def _nvml(gpu: int | None) -> tuple[Any, Any, str]:
    """NVML, the handle of a GPU, and why there is none."""
    if gpu is None:
        return None, None, ""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(gpu), ""
    except Exception as error:
        return None, None, f"throttling of the GPU is unknown: {error}"
