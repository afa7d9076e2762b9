"""The processes on an NVIDIA GPU: memory, and the share of time with a kernel running."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.observe.telemetry.gaps import Gaps


class Processes:
    """Compute and graphics processes of one GPU."""

    def __init__(self, nvml: Any, handle: Any, uuid: str, gaps: Gaps) -> None:
        self._nvml = nvml
        self._handle = handle
        self._uuid = uuid
        self._gaps = gaps
        self._seen_us = 0
        self._names: dict[int, str | None] = {}

    def read(self) -> Mapping[str, Any]:
        """The processes, and how many there are."""
        nvml = self._nvml
        by_pid: dict[int, dict[str, Any]] = {}
        for read in (
            nvml.nvmlDeviceGetComputeRunningProcesses,
            nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            for process in read(self._handle):
                by_pid[process.pid] = {
                    "pid": process.pid,
                    "name": self._name(process.pid),
                    "memory_bytes": process.usedGpuMemory,
                    "utilization": None,
                }
        for pid, share in self._utilization().items():
            if pid in by_pid:
                by_pid[pid]["utilization"] = share
        self._names = {pid: name for pid, name in self._names.items() if pid in by_pid}
        return {"processes": list(by_pid.values()), "gpu_processes": len(by_pid)}

    def _utilization(self) -> dict[int, float]:
        """Share of time each process had a kernel running, of the newest interval."""
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except self._nvml.NVMLError as error:
            # Not found means that nothing ran since the last call.
            if getattr(error, "value", None) != self._nvml.NVML_ERROR_NOT_FOUND:
                self._gaps.note("nvidia", self._uuid, "processes.utilization", str(error))
            return {}
        newest: dict[int, tuple[int, float]] = {}
        for sample in samples:
            if sample.timeStamp >= newest.get(sample.pid, (0, 0.0))[0]:
                newest[sample.pid] = (sample.timeStamp, sample.smUtil / 100)
            self._seen_us = max(self._seen_us, sample.timeStamp)
        return {pid: share for pid, (_, share) in newest.items() if 0 <= share <= 1}

    def _name(self, pid: int) -> str | None:
        if pid not in self._names:
            try:
                text = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
                self._names[pid] = text.strip()
            except OSError:
                # In a container the driver's process ids are those of the host.
                self._names[pid] = None
        return self._names[pid]
