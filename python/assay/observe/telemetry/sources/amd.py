"""AMD GPUs through amdsmi.

Written against amdsmi's documented structures and tested against a recording of them; it has not
met the hardware.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from assay.observe.telemetry import throttle
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Value
from assay.observe.telemetry.sources.source import (
    ONCE,
    Device,
    DeviceSource,
    FieldReader,
    UnsupportedFieldError,
)

Values = Mapping[str, Value | None]

_NOT_SUPPORTED: Final = 2
"""AMDSMI_STATUS_NOT_SUPPORTED."""


class Amd(DeviceSource):
    """All AMD GPUs that amdsmi sees."""

    name = "amd"

    def __init__(self, smi: Any, gaps: Gaps, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._smi = smi
        smi.amdsmi_init()
        self.devices = [
            self._open(index, handle, gaps)
            for index, handle in enumerate(smi.amdsmi_get_processor_handles())
        ]

    @classmethod
    def find(cls, gaps: Gaps) -> Amd | None:
        """The source where a driver and a GPU are present; else None, with the reason listed."""
        if not Path("/sys/module/amdgpu").exists():
            return None
        try:
            import amdsmi
        # The package opens its library on import, and fails in many ways where it is not there.
        except Exception as error:
            reason = f"amdsmi cannot be imported: {error} (ROCm installs it)"
            gaps.note("amd", "driver", "all fields", reason)
            return None
        try:
            source = cls(amdsmi, gaps)
        except Exception as error:
            gaps.note("amd", "driver", "all fields", str(error) or type(error).__name__)
            return None
        if source.devices:
            return source
        source.close()
        return None

    def close(self) -> None:
        """Leave amdsmi."""
        self._smi.amdsmi_shut_down()

    def _open(self, index: int, handle: Any, gaps: Gaps) -> Device:
        smi = self._smi
        try:
            uuid = str(smi.amdsmi_get_gpu_device_uuid(handle))
        except smi.AmdSmiException as error:
            gaps.note(self.name, f"GPU {index}", "uuid", str(error))
            uuid = f"amd-{index}"
        try:
            name = str(smi.amdsmi_get_gpu_asic_info(handle)["market_name"])
        except (smi.AmdSmiException, KeyError) as error:
            gaps.note(self.name, uuid, "name", str(error))
            name = "AMD GPU"
        return Device(
            self.name, uuid, index, name, _Gpu(smi, handle).readers(), gaps, self._is_permanent
        )

    def _is_permanent(self, error: BaseException) -> bool:
        code = getattr(error, "get_error_code", None)
        return code is not None and code() == _NOT_SUPPORTED


class _Gpu:
    """Readers of one GPU."""

    def __init__(self, smi: Any, handle: Any) -> None:
        self._smi = smi
        self._handle = handle

    def readers(self) -> list[FieldReader]:
        """What is read at every tick, then what is read more rarely."""
        return [
            FieldReader(
                "activity", ("gpu_utilization", "gpu_memory_busy"), self._activity, fast=True
            ),
            FieldReader("memory", ("gpu_memory_used_bytes",), self._memory, fast=True),
            FieldReader("power", ("gpu_power_watts",), self._power, fast=True),
            FieldReader("energy", ("gpu_energy_joules",), self._energy, fast=True),
            FieldReader("sm_clock", ("gpu_sm_clock_hz",), self._clock("GFX", "sm"), fast=True),
            FieldReader("memory_clock", ("gpu_memory_clock_hz",), self._clock("MEM", "memory")),
            FieldReader("temperature", ("gpu_temperature_celsius",), self._hotspot),
            FieldReader("memory_temperature", ("gpu_memory_temperature_celsius",), self._vram),
            FieldReader("throttle", ("gpu_throttle",), self._throttle, fast=True),
            FieldReader("errors", ("gpu_ecc_corrected", "gpu_ecc_uncorrected"), self._errors, 10.0),
            FieldReader("pcie", ("gpu_pcie_width", "gpu_pcie_replays"), self._pcie, 10.0),
            FieldReader("processes", ("processes",), self._processes, 15.0),
            FieldReader("power_limit", ("gpu_power_limit_watts",), self._limit, 10.0, held=True),
            FieldReader("memory_total", ("gpu_memory_total_bytes",), self._total, ONCE, held=True),
        ]

    def _activity(self) -> Values:
        activity = self._smi.amdsmi_get_gpu_activity(self._handle)
        return {
            "gpu_utilization": _scaled(activity.get("gfx_activity"), 0.01),
            "gpu_memory_busy": _scaled(activity.get("umc_activity"), 0.01),
        }

    def _memory(self) -> Values:
        usage = self._smi.amdsmi_get_gpu_vram_usage(self._handle)
        return {"gpu_memory_used_bytes": _whole(usage.get("vram_used"), 1 << 20)}

    def _total(self) -> Values:
        usage = self._smi.amdsmi_get_gpu_vram_usage(self._handle)
        return {"gpu_memory_total_bytes": _whole(usage.get("vram_total"), 1 << 20)}

    def _power(self) -> Values:
        power = self._smi.amdsmi_get_power_info(self._handle)
        average = _scaled(power.get("average_socket_power"), 1.0)
        current = _scaled(power.get("current_socket_power"), 1.0)
        if average is None and current is None:
            raise UnsupportedFieldError("the driver gives no socket power")
        return {
            "gpu_power_watts": average if current is None else current,
            "gpu_power_average_watts": average,
        }

    def _limit(self) -> Values:
        cap = self._smi.amdsmi_get_power_cap_info(self._handle)
        return {"gpu_power_limit_watts": _scaled(cap.get("power_cap"), 1e-6)}

    def _energy(self) -> Values:
        energy = self._smi.amdsmi_get_energy_count(self._handle)
        # Releases before 6.2 have the accumulator under "power".
        count = energy.get("energy_accumulator", energy.get("power"))
        resolution = _scaled(energy.get("counter_resolution"), 1e-6)
        if resolution is None:
            raise UnsupportedFieldError("the energy counter has no resolution")
        return {"gpu_energy_joules": _scaled(count, resolution)}

    def _clock(self, kind: str, name: str) -> Callable[[], Values]:
        def read() -> Values:
            which = getattr(self._smi.AmdSmiClkType, kind)
            clock = self._smi.amdsmi_get_clock_info(self._handle, which)
            return {
                f"gpu_{name}_clock_hz": _scaled(clock.get("clk"), 1e6),
                f"gpu_{name}_clock_max_hz": _scaled(clock.get("max_clk"), 1e6),
            }

        return read

    def _hotspot(self) -> Values:
        return {"gpu_temperature_celsius": self._temperature("HOTSPOT")}

    def _vram(self) -> Values:
        return {"gpu_memory_temperature_celsius": self._temperature("VRAM")}

    def _temperature(self, sensor: str) -> float:
        smi = self._smi
        return float(
            smi.amdsmi_get_temp_metric(
                self._handle,
                getattr(smi.AmdSmiTemperatureType, sensor),
                smi.AmdSmiTemperatureMetric.CURRENT,
            )
        )

    def _throttle(self) -> Values:
        if hasattr(self._smi, "amdsmi_get_violation_status"):
            status = self._smi.amdsmi_get_violation_status(self._handle)
            if (mask := throttle.from_amd_violations(status)) is not None:
                return {"gpu_throttle": int(mask)}
        throttling = self._smi.amdsmi_get_gpu_metrics_info(self._handle).get(
            "indep_throttle_status"
        )
        if isinstance(throttling, bool):
            # Some releases give only whether anything throttles, not what.
            return {"gpu_throttle": int(throttle.Throttle.OTHER if throttling else 0)}
        if not isinstance(throttling, int):
            raise UnsupportedFieldError("the driver gives no throttle status")
        return {
            "gpu_throttle": int(throttle.from_amd(throttling)),
            "gpu_throttle_vendor": throttling,
        }

    def _errors(self) -> Values:
        errors = self._smi.amdsmi_get_gpu_total_ecc_count(self._handle)
        return {
            "gpu_ecc_corrected": _whole(errors.get("correctable_count")),
            "gpu_ecc_uncorrected": _whole(errors.get("uncorrectable_count")),
        }

    def _pcie(self) -> Values:
        link = self._smi.amdsmi_get_pcie_info(self._handle)["pcie_metric"]
        return {
            "gpu_pcie_width": _whole(link.get("pcie_width")),
            "gpu_pcie_replays": _whole(link.get("pcie_replay_count")),
        }

    def _processes(self) -> Mapping[str, Any]:
        processes = [
            {
                "pid": int(process["pid"]),
                "name": None if process.get("name") in (None, "N/A") else str(process["name"]),
                "memory_bytes": _whole((process.get("memory_usage") or {}).get("vram_mem")),
                "utilization": None,
            }
            for process in self._smi.amdsmi_get_gpu_process_list(self._handle)
        ]
        return {"processes": processes, "gpu_processes": len(processes)}


def _scaled(value: Any, scale: float) -> float | None:
    """A number in our unit; None for "N/A"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value * scale


def _whole(value: Any, scale: int = 1) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value * scale
