"""The fields of one NVIDIA GPU, and how NVML gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from assay.observe.telemetry import throttle
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Value
from assay.observe.telemetry.sources.gpm import Gpm
from assay.observe.telemetry.sources.nvidia_processes import Processes
from assay.observe.telemetry.sources.source import ONCE, FieldReader, UnsupportedFieldError

_MOST: Final = 64
"""Events that one read takes at most; a GPU that breaks reports many at once."""


class XidErrors:
    """The last XID error since the recording began; 0 before the first."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._events: Any = None
        self._last = 0

    def read(self) -> Mapping[str, int]:
        """Take the events that came since the last read, without waiting for one."""
        nvml = self._nvml
        if self._events is None:
            events = nvml.nvmlEventSetCreate()
            try:
                nvml.nvmlDeviceRegisterEvents(
                    self._handle, nvml.nvmlEventTypeXidCriticalError, events
                )
            except nvml.NVMLError:
                nvml.nvmlEventSetFree(events)
                raise
            self._events = events
        for _ in range(_MOST):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if getattr(error, "value", None) == nvml.NVML_ERROR_TIMEOUT:
                    break
                raise
            self._last = int(event.eventData)
        return {"gpu_xid_last": self._last}

    def close(self) -> None:
        """Free the event set."""
        if self._events is not None:
            self._nvml.nvmlEventSetFree(self._events)
            self._events = None


Values = Mapping[str, Value | None]

_PERMANENT: Final = (
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_NO_PERMISSION",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
    "NVML_ERROR_INVALID_ARGUMENT",
    "NVML_ERROR_DEPRECATED",
)
"""Errors after which a field is not asked for again."""

ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of an NVLink field that sums all links."""


def permanent_codes(nvml: Any) -> set[int]:
    """The numbers of those errors."""
    return {getattr(nvml, name) for name in _PERMANENT if hasattr(nvml, name)}


class Gpu:
    """Readers of one GPU."""

    def __init__(
        self, nvml: Any, handle: Any, uuid: str, gaps: Gaps, clock: Callable[[], float]
    ) -> None:
        self._nvml = nvml
        self._handle = handle
        self._uuid = uuid
        self._gaps = gaps
        self._clock = clock
        self._refused: set[int] = set()
        self._links: tuple[float, int, int] | None = None
        self._processes = Processes(nvml, handle, uuid, gaps)
        self._xid = XidErrors(nvml, handle)

    def readers(self, gpm: Gpm | None) -> list[FieldReader]:
        """What is read at every tick, then what is read more rarely."""
        readers = [
            FieldReader(
                "utilization", ("gpu_utilization", "gpu_memory_busy"), self._utilization, fast=True
            ),
            FieldReader(
                "memory", ("gpu_memory_used_bytes",), self._memory, fast=True, elastic=True
            ),
            FieldReader(
                "power",
                ("gpu_power_watts", "gpu_memory_temperature_celsius"),
                self._power,
                fast=True,
            ),
            # The counter's call takes 4 ms of CPU on an H200: rarely, over long windows.
            FieldReader("energy", ("gpu_energy_joules",), self._energy, every_s=30.0),
            FieldReader("sm_clock", ("gpu_sm_clock_hz",), self._sm_clock, fast=True),
            FieldReader("memory_clock", ("gpu_memory_clock_hz",), self._memory_clock, elastic=True),
            FieldReader(
                "temperature", ("gpu_temperature_celsius",), self._temperature, elastic=True
            ),
            FieldReader(
                "throttle", ("gpu_throttle", "gpu_throttle_vendor"), self._throttle, fast=True
            ),
            FieldReader("xid", ("gpu_xid_last",), self._xid.read, every_s=5.0),
            FieldReader("counters", ("gpu_ecc_corrected",), self._counters, every_s=30.0),
            # The list of processes takes 3 ms of CPU on an H200, the highest clock 2 ms.
            FieldReader("processes", ("processes",), self._processes.read, every_s=15.0),
            FieldReader("power_limit", ("gpu_power_limit_watts",), self._limit, 15.0, held=True),
            FieldReader("sm_clock_max", ("gpu_sm_clock_max_hz",), self._sm_max, ONCE, held=True),
            FieldReader(
                "memory_clock_max", ("gpu_memory_clock_max_hz",), self._memory_max, ONCE, held=True
            ),
            FieldReader(
                "memory_total", ("gpu_memory_total_bytes",), self._memory_total, ONCE, held=True
            ),
            FieldReader(
                "slowdown_temperature",
                ("gpu_slowdown_temperature_celsius",),
                self._slowdown,
                ONCE,
                held=True,
            ),
            FieldReader(
                "pcie_link",
                ("gpu_pcie_generation", "gpu_pcie_width"),
                self._pcie_link,
                30.0,
                held=True,
            ),
            FieldReader(
                "dram_peak", ("gpu_dram_peak_bytes_per_second",), self._peak, ONCE, held=True
            ),
        ]
        if gpm is not None:
            # A longer window loses no traffic: GPM's figures are averages over it.
            readers.append(
                FieldReader("gpm", gpm.fields, gpm.read, gpm.window_s, fast=True, elastic=True)
            )
        else:
            # NVML measures PCIe over 20 ms, during which the call does not return.
            readers += [
                FieldReader(
                    "pcie",
                    ("gpu_pcie_receive_bytes_per_second", "gpu_pcie_transmit_bytes_per_second"),
                    self._pcie,
                    every_s=5.0,
                ),
                FieldReader(
                    "nvlink",
                    ("gpu_nvlink_receive_bytes_per_second", "gpu_nvlink_transmit_bytes_per_second"),
                    self._nvlink,
                ),
            ]
        return readers

    def close(self) -> None:
        """Free what the driver holds for this GPU."""
        self._xid.close()

    def _first_of(self, *names: str) -> Any:
        """The first of several functions that this version of NVML has."""
        for name in names:
            function = getattr(self._nvml, name, None)
            if function is not None:
                return function
        raise UnsupportedFieldError(f"this nvidia-ml-py has no {names[0]}")

    def _utilization(self) -> Values:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(self._handle)
        return {"gpu_utilization": rates.gpu / 100, "gpu_memory_busy": rates.memory / 100}

    def _memory(self) -> Values:
        return {"gpu_memory_used_bytes": self._memory_info().used}

    def _memory_total(self) -> Values:
        return {"gpu_memory_total_bytes": self._memory_info().total}

    def _memory_info(self) -> Any:
        # The second version does not count the driver's reserved memory as used.
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        return self._nvml.nvmlDeviceGetMemoryInfo(self._handle, version)

    def _power(self) -> Values:
        nvml = self._nvml
        field_values = self._field_values(
            {
                "gpu_power_watts": nvml.NVML_FI_DEV_POWER_INSTANT,
                "gpu_power_average_watts": nvml.NVML_FI_DEV_POWER_AVERAGE,
                "gpu_memory_temperature_celsius": nvml.NVML_FI_DEV_MEMORY_TEMP,
            }
        )
        for name in ("gpu_power_watts", "gpu_power_average_watts"):
            if name in field_values:
                field_values[name] /= 1000
        if "gpu_power_watts" not in field_values:
            # Before Hopper's drivers there is one figure of power, an average on newer chips.
            field_values["gpu_power_watts"] = nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000
        return field_values

    def _energy(self) -> Values:
        field_values = self._field_values(
            {"gpu_energy_joules": self._nvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION}
        )
        return {name: millijoules / 1000 for name, millijoules in field_values.items()}

    def _sm_clock(self) -> Values:
        clock = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
        return {"gpu_sm_clock_hz": clock * 1e6}

    def _memory_clock(self) -> Values:
        clock = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_MEM)
        return {"gpu_memory_clock_hz": clock * 1e6}

    def _sm_max(self) -> Values:
        clock = self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
        return {"gpu_sm_clock_max_hz": clock * 1e6}

    def _memory_max(self) -> Values:
        clock = self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, self._nvml.NVML_CLOCK_MEM)
        return {"gpu_memory_clock_max_hz": clock * 1e6}

    def _peak(self) -> Values:
        clock = self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, self._nvml.NVML_CLOCK_MEM)
        bits = self._nvml.nvmlDeviceGetMemoryBusWidth(self._handle)
        return {"gpu_dram_peak_bytes_per_second": clock * 1e6 * 2 * bits / 8}

    def _temperature(self) -> Values:
        read = self._first_of("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
        degrees = read(self._handle, self._nvml.NVML_TEMPERATURE_GPU)
        return {"gpu_temperature_celsius": float(degrees)}

    def _slowdown(self) -> Values:
        degrees = self._nvml.nvmlDeviceGetTemperatureThreshold(
            self._handle, self._nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        )
        return {"gpu_slowdown_temperature_celsius": float(degrees)}

    def _throttle(self) -> Values:
        read = self._first_of(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
        reasons = int(read(self._handle))
        return {"gpu_throttle": int(throttle.from_nvidia(reasons)), "gpu_throttle_vendor": reasons}

    def _limit(self) -> Values:
        milliwatts = self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle)
        return {"gpu_power_limit_watts": milliwatts / 1000}

    def _counters(self) -> Values:
        nvml = self._nvml
        return self._field_values(
            {
                "gpu_ecc_corrected": nvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
                "gpu_ecc_uncorrected": nvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
                "gpu_pcie_replays": nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
                "gpu_pcie_receive_bytes": nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
                "gpu_pcie_transmit_bytes": nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
            }
        )

    def _pcie_link(self) -> Values:
        return {
            "gpu_pcie_generation": self._nvml.nvmlDeviceGetCurrPcieLinkGeneration(self._handle),
            "gpu_pcie_width": self._nvml.nvmlDeviceGetCurrPcieLinkWidth(self._handle),
        }

    def _pcie(self) -> Values:
        read = self._nvml.nvmlDeviceGetPcieThroughput
        receive = read(self._handle, self._nvml.NVML_PCIE_UTIL_RX_BYTES)
        transmit = read(self._handle, self._nvml.NVML_PCIE_UTIL_TX_BYTES)
        return {
            "gpu_pcie_receive_bytes_per_second": receive * 1e3,
            "gpu_pcie_transmit_bytes_per_second": transmit * 1e3,
        }

    def _nvlink(self) -> Values:
        nvml = self._nvml
        names = ("gpu_nvlink_receive_bytes_per_second", "gpu_nvlink_transmit_bytes_per_second")
        field_values = self._field_values(
            {
                names[0]: (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
                names[1]: (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
            }
        )
        if len(field_values) < len(names):
            raise UnsupportedFieldError("NVLink: not supported")
        now = (self._clock(), int(field_values[names[0]]), int(field_values[names[1]]))
        last, self._links = self._links, now
        if last is None or now[0] <= last[0] or now[1] < last[1] or now[2] < last[2]:
            return {}
        seconds = now[0] - last[0]
        return {
            names[0]: (now[1] - last[1]) * 1024 / seconds,
            names[1]: (now[2] - last[2]) * 1024 / seconds,
        }

    def _field_values(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Several fields in one call; those that fail are listed, the rest is returned."""
        asked = {name: key for name, key in wanted.items() if _number(key) not in self._refused}
        if not asked:
            return {}
        field_values: dict[str, Any] = {}
        answers = self._nvml.nvmlDeviceGetFieldValues(self._handle, list(asked.values()))
        for (name, key), answer in zip(asked.items(), answers, strict=True):
            if answer.nvmlReturn == 0:
                field_values[name] = _value(answer)
                continue
            error = self._nvml.NVMLError(answer.nvmlReturn)
            self._gaps.note("nvidia", self._uuid, name, str(error))
            if answer.nvmlReturn in permanent_codes(self._nvml):
                self._refused.add(_number(key))
        return field_values


def _number(key: Any) -> int:
    return int(key[0] if isinstance(key, tuple) else key)


_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of NVML's value union, by value type."""


def _value(answer: Any) -> float | int:
    value: float | int = getattr(answer.value, _MEMBERS[answer.valueType])
    return value
