"""AMD's source over a recorded amdsmi; it has not met the hardware."""

from typing import Any

import pytest
from recorded_amdsmi import AmdSmiLibraryException, RecordedAmdSmi

from assay.observe.telemetry.fields import FIELDS
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Reading
from assay.observe.telemetry.sources.amd import Amd
from assay.observe.telemetry.throttle import Throttle, from_amd


def read(smi: RecordedAmdSmi, times: int = 1) -> tuple[list[Reading], dict[str, str]]:
    gaps = Gaps()
    source = Amd(smi, gaps)
    found = [reading for _ in range(times) for reading in source.read(fast_only=False)]
    source.close()
    return found, {one.field: one.reason for one in gaps.listed()}


def test_values_are_in_base_units() -> None:
    (reading,), missing = read(RecordedAmdSmi())
    assert reading.name == "AMD Instinct MI300X"
    assert reading.values == pytest.approx(
        {
            "gpu_utilization": 0.98,
            "gpu_memory_busy": 0.44,
            "gpu_memory_used_bytes": 120000 << 20,
            "gpu_memory_total_bytes": 196592 << 20,
            "gpu_power_watts": 712.0,
            "gpu_power_limit_watts": 750.0,
            "gpu_energy_joules": 20_000_000 * 15.3e-6,
            "gpu_sm_clock_hz": 2.0e9,
            "gpu_sm_clock_max_hz": 2.1e9,
            "gpu_memory_clock_hz": 1.2e9,
            "gpu_memory_clock_max_hz": 1.3e9,
            "gpu_temperature_celsius": 71.0,
            "gpu_memory_temperature_celsius": 62.0,
            "gpu_throttle": int(Throttle.POWER_CAP | Throttle.MEMORY_THERMAL),
            "gpu_ecc_corrected": 4,
            "gpu_ecc_uncorrected": 0,
            "gpu_pcie_width": 16,
            "gpu_pcie_replays": 0,
            "gpu_processes": 1,
        }
    )
    assert set(reading.values) <= set(FIELDS)
    assert missing == {}
    assert reading.processes == [
        {"pid": 42, "name": "python3", "memory_bytes": 100_000_000_000, "utilization": None}
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, Throttle(0)),
        (1 << 34, Throttle.MEMORY_THERMAL),
        ((1 << 2) | (1 << 36), Throttle.POWER_CAP | Throttle.THERMAL),
        (1 << 22, Throttle.CURRENT_LIMIT),
        (1 << 47, Throttle.HARDWARE_THERMAL),
        (1 << 60, Throttle.OTHER),
        (True, Throttle.OTHER),
        (False, Throttle(0)),
    ],
)
def test_without_violations_the_throttler_status_is_used(status: Any, expected: Throttle) -> None:
    smi = RecordedAmdSmi()
    smi.violation = dict.fromkeys(smi.violation, "N/A")
    smi.indep_throttle_status = status
    (reading,), _ = read(smi)
    assert reading.values["gpu_throttle"] == expected
    if not isinstance(status, bool):
        assert from_amd(status) == expected


@pytest.mark.parametrize("code", [2, 31])
def test_a_failing_field_never_loses_the_sample(code: int) -> None:
    for name, field in [
        ("amdsmi_get_gpu_activity", "gpu_utilization"),
        ("amdsmi_get_power_info", "gpu_power_watts"),
        ("amdsmi_get_violation_status", "gpu_throttle"),
        ("amdsmi_get_gpu_process_list", "processes"),
        ("amdsmi_get_clock_info", "gpu_sm_clock_hz"),
    ]:
        smi = RecordedAmdSmi()
        smi.fail[name] = AmdSmiLibraryException(code)
        readings, missing = read(smi, 3)
        assert len(readings) == 3
        assert all("gpu_memory_used_bytes" in one.values for one in readings)
        assert f"AMDSMI_STATUS_CODE_{code}" in missing[field]


def test_what_is_not_there_is_missing_and_not_zero() -> None:
    smi = RecordedAmdSmi()
    smi.answers["amdsmi_get_power_info"] = dict.fromkeys(
        ("current_socket_power", "average_socket_power"), "N/A"
    )
    smi.answers["amdsmi_get_gpu_activity"]["umc_activity"] = "N/A"
    (reading,), missing = read(smi)
    assert "gpu_power_watts" not in reading.values
    assert "gpu_memory_busy" not in reading.values
    assert missing["gpu_power_watts"] == "the driver gives no socket power"
