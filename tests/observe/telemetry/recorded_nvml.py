"""A recorded NVML: nvidia-ml-py's own constants and structures, filled with figures of an H200.

Only the functions that call the driver are replaced. `fail` names functions that raise, and
`field_errors` fields of nvmlDeviceGetFieldValues that answer with a code of their own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml

UUID = "GPU-6f3a1c52-9d0e-4b7a-8f41-2c5d7e90ab13"
NAME = "NVIDIA H200"
BUS_BITS, MEMORY_MHZ, SM_MHZ = 6144, 3201, 1980


class RecordedNvml:
    """Stands in for the module `pynvml`."""

    def __init__(self, gpus: int = 1, gpm: bool = True) -> None:
        self.gpus = gpus
        self.gpm = gpm
        self.fail: dict[str, int] = {}
        self.field_errors: dict[int, int] = {}
        self.metric_errors: dict[int, int] = {}
        self.calls: dict[str, int] = {}
        self.throttle = pynvml.nvmlClocksEventReasonSwPowerCap
        self.energy_mj = 123_456_789
        self.link_kib = 0
        self.gpm_samples = 0
        self.freed = 0
        self.is_open = False
        self.xids: list[int] = []
        self.event_sets = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_do_"):
            raise AttributeError(name)
        implementation = getattr(type(self), f"_do_{name}", None)
        if implementation is None:
            if name.startswith("nvml") and callable(getattr(pynvml, name, None)):
                raise AttributeError(f"{name} was not recorded")
            return getattr(pynvml, name)

        def call(*arguments: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.fail:
                raise pynvml.NVMLError(self.fail[name])
            return implementation(self, *arguments)

        return call

    def _do_nvmlInit(self) -> None:
        self.is_open = True

    def _do_nvmlShutdown(self) -> None:
        self.is_open = False

    def _do_nvmlDeviceGetCount(self) -> int:
        return self.gpus

    def _do_nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def _do_nvmlDeviceGetUUID(self, handle: int) -> str:
        return UUID if handle == 0 else f"{UUID[:-1]}{handle}"

    def _do_nvmlDeviceGetName(self, handle: int) -> str:
        return NAME

    def _do_nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return pynvml.c_nvmlUtilization_t(gpu=97, memory=61)

    def _do_nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
        assert version == pynvml.nvmlMemory_v2
        return pynvml.c_nvmlMemory_v2_t(
            version=version, total=150_754_820_096, used=88_000_000_000, free=62_000_000_000
        )

    def _do_nvmlDeviceGetFieldValues(self, handle: int, wanted: list[Any]) -> Any:
        answers = (pynvml.c_nvmlFieldValue_t * len(wanted))()
        for answer, key in zip(answers, wanted, strict=True):
            number, scope = key if isinstance(key, tuple) else (key, 0)
            answer.fieldId, answer.scopeId = number, scope
            if number in self.field_errors:
                answer.nvmlReturn = self.field_errors[number]
                continue
            member, kind, value = self._field(number)
            answer.valueType = kind
            setattr(answer.value, member, value)
        return answers

    def _field(self, number: int) -> tuple[str, int, int]:
        wide, narrow = (
            pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
            pynvml.NVML_VALUE_TYPE_UNSIGNED_INT,
        )
        if number == pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
            self.energy_mj += 650_000
            return "ullVal", wide, self.energy_mj
        if number in (
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        ):
            self.link_kib += 1024
            return "ullVal", wide, self.link_kib
        return {
            pynvml.NVML_FI_DEV_POWER_INSTANT: ("uiVal", narrow, 652_113),
            pynvml.NVML_FI_DEV_POWER_AVERAGE: ("uiVal", narrow, 640_700),
            pynvml.NVML_FI_DEV_MEMORY_TEMP: ("uiVal", narrow, 58),
            pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL: ("ullVal", wide, 2),
            pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL: ("ullVal", wide, 0),
            pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER: ("uiVal", narrow, 0),
            pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: ("ullVal", wide, 5_000),
            pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: ("ullVal", wide, 7_000),
        }[number]

    def _do_nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 640_700

    def _do_nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        return MEMORY_MHZ if clock == pynvml.NVML_CLOCK_MEM else 1755

    def _do_nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:
        return MEMORY_MHZ if clock == pynvml.NVML_CLOCK_MEM else SM_MHZ

    def _do_nvmlDeviceGetMemoryBusWidth(self, handle: int) -> int:
        return BUS_BITS

    def _do_nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:
        return 51

    def _do_nvmlDeviceGetTemperatureThreshold(self, handle: int, threshold: int) -> int:
        return 87

    def _do_nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self.throttle

    def _do_nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 700_000

    def _do_nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        return 5

    def _do_nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        return 16

    def _do_nvmlDeviceGetPcieThroughput(self, handle: int, counter: int) -> int:
        return 1200 if counter == pynvml.NVML_PCIE_UTIL_RX_BYTES else 300

    def _do_nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=1, usedGpuMemory=80_000_000_000), _process(4_000_000_001, None)]

    def _do_nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        return []

    def _do_nvmlDeviceGetProcessUtilization(self, handle: int, since_us: int) -> list[Any]:
        if since_us >= 2000:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        rows = [(1, 1000, 10), (1, 2000, 95)]
        return [
            pynvml.c_nvmlProcessUtilizationSample_t(pid=pid, timeStamp=at, smUtil=share)
            for pid, at, share in rows
            if at > since_us
        ]

    def _do_nvmlEventSetCreate(self) -> Any:
        self.event_sets += 1
        return pynvml.c_nvmlEventSet_t()

    def _do_nvmlEventSetFree(self, events: Any) -> None:
        self.event_sets -= 1

    def _do_nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: Any) -> None:
        assert kinds == pynvml.nvmlEventTypeXidCriticalError

    def _do_nvmlEventSetWait_v2(self, events: Any, timeout_ms: int) -> Any:
        assert timeout_ms == 0
        if not self.xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        return pynvml.c_nvmlEventData_t(eventData=self.xids.pop(0))

    def _do_nvmlGpmQueryDeviceSupport(self, handle: int) -> Any:
        return pynvml.c_nvmlGpmSupport_t(isSupportedDevice=int(self.gpm))

    def _do_nvmlGpmSampleAlloc(self) -> Any:
        self.gpm_samples += 1
        return pynvml.c_nvmlGpmSample_t()

    def _do_nvmlGpmSampleFree(self, sample: Any) -> None:
        self.freed += 1

    def _do_nvmlGpmSampleGet(self, handle: int, sample: Any) -> Any:
        return sample

    def _do_nvmlGpmMetricsGet(self, request: Any) -> Any:
        shares = {
            pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: 99.0,
            pynvml.NVML_GPM_METRIC_SM_UTIL: 88.5,
            pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 31.25,
            pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 12.5,
            pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 75.0,
            pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 3.0,
            pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 2.0,
        }
        for metric in request.metrics[: request.numMetrics]:
            if metric.metricId in self.metric_errors:
                metric.nvmlReturn = self.metric_errors[metric.metricId]
            elif metric.metricId in shares:
                metric.nvmlReturn, metric.value = 0, shares[metric.metricId]
            else:
                metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return request


def _process(pid: int, memory: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)
