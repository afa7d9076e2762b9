"""A recorded amdsmi: the structures its Python interface documents, with figures of an MI300X."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class AmdSmiException(Exception):
    """The base of amdsmi's exceptions."""


class AmdSmiLibraryException(AmdSmiException):
    """An error code of the library."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Error code:\n\t{code} | AMDSMI_STATUS_CODE_{code}")
        self._code = code

    def get_error_code(self) -> int:
        return self._code


class AmdSmiClkType(IntEnum):
    """Clocks."""

    GFX = 0
    MEM = 4


class AmdSmiTemperatureType(IntEnum):
    """Sensors."""

    EDGE = 0
    HOTSPOT = 1
    VRAM = 2


class AmdSmiTemperatureMetric(IntEnum):
    """Kinds of temperature."""

    CURRENT = 0


class RecordedAmdSmi:
    """Stands in for the module `amdsmi`."""

    AmdSmiException = AmdSmiException
    AmdSmiClkType = AmdSmiClkType
    AmdSmiTemperatureType = AmdSmiTemperatureType
    AmdSmiTemperatureMetric = AmdSmiTemperatureMetric

    def __init__(self) -> None:
        self.fail: dict[str, Exception] = {}
        self.calls: dict[str, int] = {}
        self.violation: dict[str, Any] = {
            "acc_counter": 12,
            "active_prochot_thrm": False,
            "active_ppt_pwr": True,
            "active_socket_thrm": False,
            "active_vr_thrm": False,
            "active_hbm_thrm": True,
        }
        self.indep_throttle_status: Any = (1 << 0) | (1 << 34)
        self.answers: dict[str, Any] = {
            "amdsmi_init": None,
            "amdsmi_shut_down": None,
            "amdsmi_get_processor_handles": ["gpu-0"],
            "amdsmi_get_gpu_device_uuid": "33ff74a1-0000-1000-8038-b3a79a9d75b5",
            "amdsmi_get_gpu_asic_info": {
                "market_name": "AMD Instinct MI300X",
                "vendor_id": "0x1002",
                "num_compute_units": 304,
            },
            "amdsmi_get_gpu_activity": {
                "gfx_activity": 98,
                "umc_activity": 44,
                "mm_activity": "N/A",
            },
            "amdsmi_get_gpu_vram_usage": {"vram_total": 196592, "vram_used": 120000},
            "amdsmi_get_power_info": {
                "current_socket_power": 712,
                "average_socket_power": "N/A",
                "gfx_voltage": "N/A",
                "power_limit": 750000000,
            },
            "amdsmi_get_power_cap_info": {
                "power_cap": 750000000,
                "max_power_cap": 750000000,
                "dpm_cap": 0,
            },
            "amdsmi_get_energy_count": {
                "energy_accumulator": 20_000_000,
                "counter_resolution": 15.3,
                "timestamp": 1,
            },
            "amdsmi_get_gpu_total_ecc_count": {
                "correctable_count": 4,
                "uncorrectable_count": 0,
                "deferred_count": 0,
            },
            "amdsmi_get_pcie_info": {
                "pcie_static": {"max_pcie_width": 16},
                "pcie_metric": {
                    "pcie_width": 16,
                    "pcie_speed": 32000,
                    "pcie_bandwidth": "N/A",
                    "pcie_replay_count": 0,
                },
            },
            "amdsmi_get_gpu_process_list": [
                {
                    "name": "python3",
                    "pid": 42,
                    "mem": 1,
                    "engine_usage": {"gfx": 0, "enc": 0},
                    "memory_usage": {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": 100_000_000_000},
                }
            ],
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("amdsmi_"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.fail:
                raise self.fail[name]
            if name == "amdsmi_get_clock_info":
                top = 2100 if arguments[1] is AmdSmiClkType.GFX else 1300
                return {"clk": top - 100, "min_clk": 132, "max_clk": top, "clk_deep_sleep": 0}
            if name == "amdsmi_get_temp_metric":
                return {AmdSmiTemperatureType.HOTSPOT: 71, AmdSmiTemperatureType.VRAM: 62}[
                    arguments[1]
                ]
            if name == "amdsmi_get_violation_status":
                return self.violation
            if name == "amdsmi_get_gpu_metrics_info":
                return {"indep_throttle_status": self.indep_throttle_status}
            return self.answers[name]

        return call
