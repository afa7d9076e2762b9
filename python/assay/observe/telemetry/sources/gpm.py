"""GPM: activity of SMs, tensor cores and device memory of Hopper and later, from NVML.

A metric is the difference of two samples of the GPU's counters, so the first call of a recording
gives none. It runs beside profilers, which DCGM's profiling fields do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from assay.observe.telemetry.gaps import Gaps

_SHARE, _MIB_PER_SECOND = 0.01, 2.0**20

METRICS: Final = {
    "gpu_graphics_active": ("NVML_GPM_METRIC_GRAPHICS_UTIL", _SHARE),
    "gpu_sm_active": ("NVML_GPM_METRIC_SM_UTIL", _SHARE),
    "gpu_sm_occupancy": ("NVML_GPM_METRIC_SM_OCCUPANCY", _SHARE),
    "gpu_tensor_active": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", _SHARE),
    "gpu_dram_active": ("NVML_GPM_METRIC_DRAM_BW_UTIL", _SHARE),
    "gpu_pcie_receive_bytes_per_second": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MIB_PER_SECOND),
    "gpu_pcie_transmit_bytes_per_second": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MIB_PER_SECOND),
    "gpu_nvlink_receive_bytes_per_second": (
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC",
        _MIB_PER_SECOND,
    ),
    "gpu_nvlink_transmit_bytes_per_second": (
        "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC",
        _MIB_PER_SECOND,
    ),
}
"""Field, NVML's metric, and the factor to the field's unit."""

WINDOW_S: Final = 0.1
"""The least time between two samples: the counters are not refreshed much faster."""


class Gpm:
    """The last sample of one GPU, to be compared with the next."""

    fields = (*METRICS, "gpu_dram_bytes_per_second")
    window_s = WINDOW_S

    def __init__(
        self, nvml: Any, handle: Any, uuid: str, gaps: Gaps, clock: Callable[[], float]
    ) -> None:
        self._nvml = nvml
        self._handle = handle
        self._uuid = uuid
        self._gaps = gaps
        self._clock = clock
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self._taken_s: float | None = None
        self._peak: float | None = None
        self._metrics = dict(METRICS)
        # A field is not used again once the device refused it; the structure is laid out once.
        self._request = nvml.c_nvmlGpmMetricsGet_t()

    @classmethod
    def open(
        cls, nvml: Any, handle: Any, uuid: str, gaps: Gaps, clock: Callable[[], float]
    ) -> Gpm | None:
        """GPM of a device; None, with the reason listed, where the device has none."""
        try:
            supported = nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
            reason = "GPM needs Hopper or later"
        except (nvml.NVMLError, AttributeError) as error:
            supported, reason = 0, str(error)
        if supported:
            try:
                return cls(nvml, handle, uuid, gaps, clock)
            except nvml.NVMLError as error:
                reason = str(error)
        for field in ("gpu_sm_active", "gpu_tensor_active", "gpu_dram_active"):
            gaps.note("nvidia", uuid, field, reason)
        return None

    def read(self) -> Mapping[str, float]:
        """The metrics since the last call; empty at the first."""
        nvml = self._nvml
        last, current = self._samples
        now_s = self._clock()
        nvml.nvmlGpmSampleGet(self._handle, current)
        self._samples = [current, last]
        begun_s, self._taken_s = self._taken_s, now_s
        if begun_s is None or now_s - begun_s < WINDOW_S / 2:
            return {}
        names = list(self._metrics)
        request = self._request
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(names)
        request.sample1, request.sample2 = last, current
        for place, name in enumerate(names):
            request.metrics[place].metricId = getattr(nvml, self._metrics[name][0])
        nvml.nvmlGpmMetricsGet(request)
        values: dict[str, float] = {}
        for place, name in enumerate(names):
            metric = request.metrics[place]
            if metric.nvmlReturn != 0:
                self._gaps.note("nvidia", self._uuid, name, str(nvml.NVMLError(metric.nvmlReturn)))
                if metric.nvmlReturn == nvml.NVML_ERROR_NOT_SUPPORTED:
                    del self._metrics[name]
            elif math.isfinite(metric.value):
                values[name] = metric.value * self._metrics[name][1]
        if "gpu_dram_active" in values and (peak := self._peak_bandwidth()):
            values["gpu_dram_bytes_per_second"] = values["gpu_dram_active"] * peak
        return values

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)
        self._samples = []

    def _peak_bandwidth(self) -> float:
        """Bytes a second; 0 where the driver does not give clock and width."""
        if self._peak is None:
            try:
                clock = self._nvml.nvmlDeviceGetMaxClockInfo(
                    self._handle, self._nvml.NVML_CLOCK_MEM
                )
                bits = self._nvml.nvmlDeviceGetMemoryBusWidth(self._handle)
                self._peak = clock * 1e6 * 2 * bits / 8
            except self._nvml.NVMLError as error:
                self._gaps.note("nvidia", self._uuid, "gpu_dram_bytes_per_second", str(error))
                self._peak = 0.0
        return self._peak
