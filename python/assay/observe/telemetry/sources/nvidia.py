"""NVIDIA GPUs through NVML (package nvidia-ml-py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sources.gpm import Gpm
from assay.observe.telemetry.sources.nvidia_gpu import Gpu, permanent_codes
from assay.observe.telemetry.sources.source import BUDGET, Device, DeviceSource


class Nvidia(DeviceSource):
    """All NVIDIA GPUs that NVML sees."""

    name = "nvidia"

    def __init__(self, nvml: Any, gaps: Gaps, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._nvml = nvml
        nvml.nvmlInit()
        self._closing: list[Callable[[], None]] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                self.devices.append(self._open(index, gaps))
            except nvml.NVMLError as error:
                gaps.note(self.name, f"GPU {index}", "all fields", str(error))
        for device in self.devices:
            device.budget = BUDGET / len(self.devices)

    @classmethod
    def find(cls, gaps: Gaps) -> Nvidia | None:
        """The source where a driver and a GPU are present; else None, with the reason listed."""
        try:
            import pynvml
        except ImportError:
            if Path("/proc/driver/nvidia").exists():
                gaps.note(
                    "nvidia",
                    "driver",
                    "all fields",
                    "nvidia-ml-py is not installed (pip install 'assay[telemetry]')",
                )
            return None
        try:
            source = cls(pynvml, gaps)
        except pynvml.NVMLError as error:
            # Without a driver there is nothing to miss.
            if Path("/proc/driver/nvidia").exists():
                gaps.note("nvidia", "driver", "all fields", str(error))
            return None
        if source.devices:
            return source
        source.close()
        return None

    def close(self) -> None:
        """Free GPM samples and event sets, and leave NVML."""
        for close in self._closing:
            close()
        self._nvml.nvmlShutdown()

    def _open(self, index: int, gaps: Gaps) -> Device:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(handle)
        gpu = Gpu(nvml, handle, uuid, gaps, self._clock)
        codes = permanent_codes(nvml)
        self._closing.append(gpu.close)
        gpm = Gpm.open(nvml, handle, uuid, gaps, self._clock)
        if gpm is not None:
            self._closing.append(gpm.close)
        return Device(
            self.name,
            uuid,
            index,
            nvml.nvmlDeviceGetName(handle),
            gpu.readers(gpm),
            gaps,
            lambda error: getattr(error, "value", None) in codes,
        )
