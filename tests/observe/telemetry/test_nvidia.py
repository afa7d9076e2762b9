"""NVIDIA's source over a recorded NVML: units, missing fields, periods."""

from typing import Any

import pynvml
import pytest
from recorded_nvml import BUS_BITS, MEMORY_MHZ, UUID, RecordedNvml

from assay.observe.telemetry.fields import FIELDS
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Reading
from assay.observe.telemetry.sources.nvidia import Nvidia
from assay.observe.telemetry.throttle import Throttle, from_nvidia, is_limited, words


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def readings(nvml: RecordedNvml, seconds: list[float], *, fast_only: bool = False) -> list[Reading]:
    clock, gaps = Clock(), Gaps()
    source = Nvidia(nvml, gaps, clock)
    found = []
    for second in seconds:
        clock.now = 100.0 + second
        found += source.read(fast_only=fast_only)
    source.close()
    nvml.gaps = {(one.field, one.reason) for one in gaps.listed()}  # type: ignore[attr-defined]
    return found


def test_values_are_in_base_units() -> None:
    first, second = readings(RecordedNvml(), [0.0, 1.0])
    assert (first.source, first.device, first.index, first.name) == (
        "nvidia",
        UUID,
        0,
        "NVIDIA H200",
    )
    expected = {
        "gpu_utilization": 0.97,
        "gpu_memory_used_bytes": 88_000_000_000,
        "gpu_memory_total_bytes": 150_754_820_096,
        "gpu_power_watts": 652.113,
        "gpu_power_average_watts": 640.7,
        "gpu_power_limit_watts": 700.0,
        "gpu_energy_joules": (123_456_789 + 650_000) / 1000,
        "gpu_sm_clock_hz": 1.755e9,
        "gpu_sm_clock_max_hz": 1.98e9,
        "gpu_memory_clock_hz": 3.201e9,
        "gpu_temperature_celsius": 51.0,
        "gpu_memory_temperature_celsius": 58.0,
        "gpu_slowdown_temperature_celsius": 87.0,
        "gpu_throttle": int(Throttle.POWER_CAP),
        "gpu_ecc_corrected": 2,
        "gpu_pcie_generation": 5,
        "gpu_pcie_width": 16,
        "gpu_processes": 2,
        # The catalog's H200 has 4.8 TB/s; the clock and the width give 4.92.
        "gpu_dram_peak_bytes_per_second": MEMORY_MHZ * 1e6 * 2 * BUS_BITS / 8,
    }
    assert {name: first.values[name] for name in expected} == pytest.approx(expected)
    assert set(first.values) | set(second.values) <= set(FIELDS)
    assert "gpu_dram_active" not in first.values
    assert second.values["gpu_dram_active"] == 0.75
    assert second.values["gpu_tensor_active"] == 0.125
    assert second.values["gpu_pcie_receive_bytes_per_second"] == 3 * 2**20
    assert second.values["gpu_dram_bytes_per_second"] == pytest.approx(0.75 * 4.917e12, rel=1e-3)


def test_processes_have_memory_and_use() -> None:
    nvml = RecordedNvml()
    first, second = readings(nvml, [0.0, 16.0])
    assert first.processes is not None
    init, stranger = first.processes
    assert (init["pid"], init["memory_bytes"], init["utilization"]) == (1, 80_000_000_000, 0.95)
    # A process of another namespace has no name here, and a driver may not know its memory.
    assert stranger == {
        "pid": 4_000_000_001,
        "name": None,
        "memory_bytes": None,
        "utilization": None,
    }
    assert second.processes is not None
    assert second.processes[0]["utilization"] is None


def test_slow_fields_are_read_rarely_and_limits_are_repeated() -> None:
    nvml = RecordedNvml()
    found = readings(nvml, [float(second) for second in range(30)])
    assert nvml.calls["nvmlDeviceGetUtilizationRates"] == 30
    assert nvml.calls["nvmlDeviceGetEnforcedPowerLimit"] == 2
    assert nvml.calls["nvmlDeviceGetComputeRunningProcesses"] == 2
    # Of the SM clock, of the memory clock, and of the peak of GPM and of the field.
    assert nvml.calls["nvmlDeviceGetMaxClockInfo"] == 4
    assert {one.values["gpu_power_limit_watts"] for one in found} == {700.0}
    assert [one.processes is not None for one in found] == [n in (0, 15) for n in range(30)]


def test_the_highest_rate_reads_the_fast_fields_only() -> None:
    nvml = RecordedNvml()
    found = readings(nvml, [n / 50 for n in range(50)], fast_only=True)
    slow = {"gpu_temperature_celsius", "gpu_processes", "gpu_ecc_corrected"}
    assert not slow & set().union(*(one.values for one in found))
    assert all({"gpu_power_watts", "gpu_sm_clock_max_hz"} <= set(one.values) for one in found)
    # Two samples of GPM closer than its window say nothing.
    assert nvml.calls["nvmlGpmSampleGet"] == pytest.approx(10, abs=1)


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "gpu_utilization"),
        ("nvmlDeviceGetMemoryInfo", "gpu_memory_used_bytes"),
        ("nvmlDeviceGetFieldValues", "gpu_power_watts"),
        ("nvmlDeviceGetClockInfo", "gpu_sm_clock_hz"),
        ("nvmlDeviceGetCurrentClocksEventReasons", "gpu_throttle"),
        ("nvmlDeviceGetComputeRunningProcesses", "processes"),
        ("nvmlDeviceGetEnforcedPowerLimit", "gpu_power_limit_watts"),
        ("nvmlGpmSampleGet", "gpu_dram_active"),
        ("nvmlGpmMetricsGet", "gpu_dram_active"),
    ],
)
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_UNKNOWN])
def test_a_failing_field_never_loses_the_sample(function: str, field: str, code: int) -> None:
    nvml = RecordedNvml()
    nvml.fail[function] = code
    found = readings(nvml, [0.0, 1.0, 2.0])
    assert len(found) == 3
    assert all(field not in one.values for one in found)
    assert all("gpu_temperature_celsius" in one.values for one in found)
    listed = [reason for name, reason in nvml.gaps if name == field]  # type: ignore[attr-defined]
    assert listed == [str(pynvml.NVMLError(code))]


def test_what_is_not_supported_is_not_asked_again() -> None:
    nvml = RecordedNvml()
    nvml.fail["nvmlDeviceGetUtilizationRates"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    nvml.fail["nvmlDeviceGetTemperatureV"] = pynvml.NVML_ERROR_GPU_IS_LOST
    readings(nvml, [0.0, 1.0, 2.0])
    assert nvml.calls["nvmlDeviceGetUtilizationRates"] == 1
    assert nvml.calls["nvmlDeviceGetTemperatureV"] == 3


def test_one_value_of_a_batch_may_be_missing() -> None:
    nvml = RecordedNvml()
    nvml.field_errors[pynvml.NVML_FI_DEV_MEMORY_TEMP] = pynvml.NVML_ERROR_NOT_SUPPORTED
    nvml.field_errors[pynvml.NVML_FI_DEV_POWER_INSTANT] = pynvml.NVML_ERROR_NOT_SUPPORTED
    (only,) = readings(nvml, [0.0])
    assert "gpu_memory_temperature_celsius" not in only.values
    # The only other figure of power is taken, and what was not there is listed.
    assert only.values["gpu_power_watts"] == 640.7
    listed = {name for name, _ in nvml.gaps}  # type: ignore[attr-defined]
    assert {"gpu_memory_temperature_celsius", "gpu_power_watts"} <= listed


def test_without_gpm_links_come_from_counters() -> None:
    nvml = RecordedNvml(gpm=False)
    first, second = readings(nvml, [0.0, 2.0])
    assert "gpu_nvlink_receive_bytes_per_second" not in first.values
    # The recorded counter grows by 2048 KiB between two reads of one direction.
    assert second.values["gpu_nvlink_receive_bytes_per_second"] == 2048 * 1024 / 2
    assert first.values["gpu_pcie_receive_bytes_per_second"] == 1200e3
    assert ("gpu_dram_active", "GPM needs Hopper or later") in nvml.gaps  # type: ignore[attr-defined]


def test_several_gpus_and_clean_end() -> None:
    nvml = RecordedNvml(gpus=3)
    found = readings(nvml, [0.0])
    assert [one.index for one in found] == [0, 1, 2]
    assert len({one.device for one in found}) == 3
    assert not nvml.is_open
    assert nvml.freed == nvml.gpm_samples == 6


def test_the_last_xid_error_is_kept() -> None:
    nvml = RecordedNvml()
    clock, gaps = Clock(), Gaps()
    source = Nvidia(nvml, gaps, clock)
    found = []
    for second in range(0, 20, 5):
        clock.now = 100.0 + second
        if second == 5:
            nvml.xids = [31, 79]
        (reading,) = source.read(fast_only=False)
        found.append(reading.values["gpu_xid_last"])
    source.close()
    assert found == [0, 79, 79, 79]
    assert nvml.event_sets == 0


def test_a_gpu_without_events_frees_its_event_set() -> None:
    nvml = RecordedNvml()
    nvml.fail["nvmlDeviceRegisterEvents"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    (reading,) = readings(nvml, [0.0])
    assert "gpu_xid_last" not in reading.values
    assert nvml.event_sets == 0


def test_throttle_bits_are_those_of_nvml() -> None:
    for bit, expected in [
        (pynvml.nvmlClocksEventReasonGpuIdle, Throttle.IDLE),
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, Throttle.APPLICATION_CLOCKS),
        (pynvml.nvmlClocksEventReasonSwPowerCap, Throttle.POWER_CAP),
        (pynvml.nvmlClocksEventReasonHwSlowdown, Throttle.HARDWARE_SLOWDOWN),
        (pynvml.nvmlClocksEventReasonSyncBoost, Throttle.SYNC_BOOST),
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, Throttle.THERMAL),
        (pynvml.nvmlClocksEventReasonHwThermalSlowdown, Throttle.HARDWARE_THERMAL),
        (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, Throttle.POWER_BRAKE),
        (pynvml.nvmlClocksEventReasonDisplayClockSetting, Throttle.DISPLAY_CLOCKS),
    ]:
        assert from_nvidia(bit) == expected
    assert from_nvidia(1 << 40) == Throttle.OTHER
    assert words(int(Throttle.POWER_CAP | Throttle.HARDWARE_THERMAL)) == [
        "power cap",
        "hardware thermal slowdown",
    ]
    assert not is_limited(int(Throttle.IDLE | Throttle.APPLICATION_CLOCKS))
    assert is_limited(int(Throttle.IDLE | Throttle.POWER_CAP))


def test_expensive_calls_are_made_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver whose calls cost a millisecond each: the budget of a core's time holds."""
    spent = 0.0

    class Expensive(RecordedNvml):
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if not name.startswith("nvmlDevice") and not name.startswith("nvmlGpm"):
                return found

            def call(*arguments: Any) -> Any:
                nonlocal spent
                spent += 1e-3
                return found(*arguments)

            return call

    monkeypatch.setattr("time.thread_time", lambda: spent)
    nvml = Expensive()
    clock, gaps = Clock(), Gaps()
    source = Nvidia(nvml, gaps, clock)
    for second in range(20):
        clock.now = 100.0 + second
        source.read(fast_only=False)
    settled = spent
    seconds = 200
    for second in range(20, 20 + seconds):
        clock.now = 100.0 + second
        (reading,) = source.read(fast_only=False)
        # What matters most is read at every tick all the same.
        assert {"gpu_utilization", "gpu_power_watts", "gpu_throttle"} <= set(reading.values)
    source.close()
    (said,) = [one.reason for one in gaps.listed() if one.field == "rate"]
    assert "gpm" in said
    # Four calls a second cannot be spared; everything else shares what is left.
    assert (spent - settled) / seconds < 0.006
    assert nvml.calls["nvmlGpmSampleGet"] > 5


def test_cheap_calls_are_not_stretched() -> None:
    nvml = RecordedNvml()
    readings(nvml, [float(second) for second in range(12)])
    assert nvml.calls["nvmlGpmSampleGet"] == 12
    assert "rate" not in {name for name, _ in nvml.gaps}  # type: ignore[attr-defined]
