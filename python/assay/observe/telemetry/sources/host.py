"""The host: cores, memory, network, storage (psutil), frequency, pressure, energy, cgroup."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Value
from assay.observe.telemetry.sources.cgroup import Cgroup
from assay.observe.telemetry.sources.rapl import Rapl
from assay.observe.telemetry.sources.source import (
    ONCE,
    Device,
    DeviceSource,
    FieldReader,
    UnsupportedFieldError,
)

Values = Mapping[str, Value | None]

_SENSORS: Final = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_FREQUENCIES: Final = 8
"""Cores whose frequency is read: one file each, which adds up on hundreds of cores."""


class Host(DeviceSource):
    """The machine that this process runs on."""

    name = "host"

    def __init__(
        self,
        psutil: Any,
        gaps: Gaps,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._psutil = psutil
        self._root = root
        self._times: list[Any] | None = None
        self._cgroup = Cgroup(root)
        self._rapl = Rapl(root / "sys/class/powercap")
        self.devices = [Device(self.name, platform.node(), 0, "host", self._readers(), gaps)]

    @classmethod
    def find(cls, gaps: Gaps) -> Host | None:
        """The source; None, with the reason listed, without psutil."""
        try:
            import psutil
        except ImportError:
            gaps.note(
                "host",
                platform.node(),
                "all fields",
                "psutil is not installed (pip install 'assay[telemetry]')",
            )
            return None
        return cls(psutil, gaps)

    def close(self) -> None:
        """Nothing is held."""

    def _readers(self) -> list[FieldReader]:
        cgroup, rapl = self._cgroup, self._rapl
        return [
            FieldReader(
                "cores", ("host_cpu_utilization", "host_cpu_steal"), self._cores, fast=True
            ),
            FieldReader(
                "memory", ("host_memory_used_bytes", "host_memory_available_bytes"), self._memory
            ),
            FieldReader("load", ("host_load_1m",), self._load),
            *(
                FieldReader(
                    f"pressure_{kind}",
                    (f"host_pressure_{kind}",),
                    lambda kind=kind: self._pressure(kind),  # type: ignore[misc]
                    # The kernel's figure is an average over ten seconds.
                    5.0,
                )
                for kind in ("cpu", "memory", "io")
            ),
            FieldReader("energy", rapl.fields, rapl.read),
            FieldReader("cgroup_cpu", cgroup.cpu_fields, cgroup.cpu, fast=True),
            FieldReader("cgroup_memory", ("cgroup_memory_used_bytes",), cgroup.memory),
            FieldReader(
                "cgroup_limits",
                ("cgroup_cpu_limit", "cgroup_memory_limit_bytes"),
                cgroup.limits,
                10.0,
                held=True,
            ),
            FieldReader("swap", ("host_swap_used_bytes",), self._swap, 10.0),
            FieldReader(
                "network",
                ("host_network_receive_bytes", "host_network_transmit_bytes"),
                self._network,
                5.0,
            ),
            FieldReader("disk", ("host_disk_read_bytes", "host_disk_write_bytes"), self._disk, 5.0),
            FieldReader("frequency", ("host_cpu_clock_hz",), self._frequency, 5.0),
            FieldReader(
                "frequency_max", ("host_cpu_clock_max_hz",), self._frequency_max, ONCE, held=True
            ),
            FieldReader("temperature", ("host_cpu_temperature_celsius",), self._temperature, 10.0),
            FieldReader(
                "sizes",
                ("host_cpu_count", "host_cpu_usable", "host_memory_total_bytes"),
                self._sizes,
                ONCE,
                held=True,
            ),
        ]

    def _cores(self) -> Values:
        """Shares since the last call; none at the first."""
        now = self._psutil.cpu_times(percpu=True)
        last, self._times = self._times, now
        if last is None or len(last) != len(now):
            return {}
        total = busy = iowait = steal = busiest = 0.0
        for before, after in zip(last, now, strict=True):
            # Guests' time is counted in user time already.
            spent = sum(after[:8]) - sum(before[:8])
            if spent <= 0:
                continue
            waited = _grown(before, after, "iowait")
            working = spent - _grown(before, after, "idle") - waited
            taken = _grown(before, after, "steal")
            total += spent
            busy += working - taken
            iowait += waited
            steal += taken
            busiest = max(busiest, (working - taken) / spent)
        if total <= 0:
            return {}
        return {
            "host_cpu_utilization": _share(busy / total),
            "host_cpu_busiest": _share(busiest),
            "host_cpu_iowait": _share(iowait / total),
            "host_cpu_steal": _share(steal / total),
        }

    def _memory(self) -> Values:
        virtual_memory = self._psutil.virtual_memory()
        return {
            "host_memory_used_bytes": virtual_memory.used,
            "host_memory_available_bytes": virtual_memory.available,
        }

    def _sizes(self) -> Values:
        return {
            "host_cpu_count": os.cpu_count(),
            "host_cpu_usable": len(os.sched_getaffinity(0)),
            "host_memory_total_bytes": self._psutil.virtual_memory().total,
        }

    def _load(self) -> Values:
        return {"host_load_1m": os.getloadavg()[0]}

    def _swap(self) -> Values:
        return {"host_swap_used_bytes": self._psutil.swap_memory().used}

    def _network(self) -> Values:
        counters = self._psutil.net_io_counters(pernic=True)
        cards = [card for name, card in counters.items() if name != "lo"]
        return {
            "host_network_receive_bytes": sum(card.bytes_recv for card in cards),
            "host_network_transmit_bytes": sum(card.bytes_sent for card in cards),
        }

    def _disk(self) -> Values:
        counters = self._psutil.disk_io_counters()
        if counters is None:
            raise UnsupportedFieldError("the system lists no disks")
        return {
            "host_disk_read_bytes": counters.read_bytes,
            "host_disk_write_bytes": counters.write_bytes,
        }

    def _pressure(self, kind: str) -> Values:
        path = self._root / "proc/pressure" / kind
        try:
            text = path.read_text(encoding="ascii")
        except OSError as error:
            raise UnsupportedFieldError(f"{path}: {error.strerror}") from error
        for line in text.splitlines():
            words = line.split()
            if words and words[0] == "some":
                named = dict(word.split("=", 1) for word in words[1:] if "=" in word)
                return {f"host_pressure_{kind}": float(named["avg10"]) / 100}
        raise UnsupportedFieldError(f'{path}: expected a line "some"')

    def _frequency(self) -> Values:
        return {"host_cpu_clock_hz": self._read_frequency("scaling_cur_freq")}

    def _frequency_max(self) -> Values:
        return {"host_cpu_clock_max_hz": self._read_frequency("cpuinfo_max_freq")}

    def _read_frequency(self, name: str) -> float:
        cores = sorted(os.sched_getaffinity(0))
        step = max(1, len(cores) // _FREQUENCIES)
        folder = self._root / "sys/devices/system/cpu"
        frequencies = []
        for core in cores[::step]:
            path = folder / f"cpu{core}" / "cpufreq" / name
            if path.exists():
                frequencies.append(float(path.read_text(encoding="ascii")) * 1e3)
        if frequencies:
            return sum(frequencies) / len(frequencies)
        if name == "scaling_cur_freq":
            text = (self._root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
            frequencies = [
                float(line.partition(":")[2]) * 1e6
                for line in text.splitlines()
                if line.startswith("cpu MHz")
            ]
            if frequencies:
                return sum(frequencies) / len(frequencies)
        raise UnsupportedFieldError("the system gives no frequency of the cores")

    def _temperature(self) -> Values:
        read = getattr(self._psutil, "sensors_temperatures", None)
        sensors = read() if read is not None else {}
        degrees = [reading.current for name in _SENSORS for reading in sensors.get(name, ())]
        if not degrees:
            raise UnsupportedFieldError("no temperature sensor of the CPU is visible")
        return {"host_cpu_temperature_celsius": float(max(degrees))}


def _grown(before: Any, after: Any, name: str) -> float:
    return max(getattr(after, name, 0.0) - getattr(before, name, 0.0), 0.0)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
