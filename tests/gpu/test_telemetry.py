"""Telemetry of a real NVIDIA GPU: fields, cost, agreement with what the GPU did."""

import time

import pytest

import assay
from assay.observe.telemetry import State
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Sample
from assay.observe.telemetry.sources.nvidia import Nvidia

pytestmark = pytest.mark.gpu
pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (extra telemetry)")

ALWAYS = {
    "gpu_utilization",
    "gpu_memory_used_bytes",
    "gpu_memory_total_bytes",
    "gpu_power_watts",
    "gpu_power_limit_watts",
    "gpu_energy_joules",
    "gpu_sm_clock_hz",
    "gpu_sm_clock_max_hz",
    "gpu_memory_clock_hz",
    "gpu_temperature_celsius",
    "gpu_throttle",
}


def record(seconds: float, rate: float) -> tuple[list[Sample], State]:
    samples: list[Sample] = []
    with assay.telemetry([], rate=rate, endpoints=[], listener=samples.extend) as state:
        time.sleep(seconds)
    return [one for one in samples if one.reading.source == "nvidia"], state


def test_a_gpu_has_the_fields_that_every_data_center_gpu_has() -> None:
    found, state = record(3.5, 1.0)
    print(*state.missing, sep="\n")
    assert len(found) >= 3
    seen = set().union(*(one.reading.values for one in found))
    assert seen >= ALWAYS
    first = found[0].reading.values
    assert 0 < float(first["gpu_power_watts"]) < 2 * float(first["gpu_power_limit_watts"])
    assert float(first["gpu_sm_clock_hz"]) <= float(first["gpu_sm_clock_max_hz"])
    assert first["gpu_memory_used_bytes"] < first["gpu_memory_total_bytes"]  # type: ignore[operator]
    assert float(first["gpu_energy_joules"]) > 0


def test_one_hertz_costs_less_than_half_a_percent_of_a_core() -> None:
    # Constants and limits are read at the start: a minute shows what a recording of days costs.
    _, state = record(60.0, 1.0)
    cost = state.cost()
    for name, seconds in sorted(state.costs().items(), key=lambda item: -item[1]):
        print(f"{name}: {seconds * 1e3:.2f} ms in {cost['wall_seconds']:.0f} s")
    print(f"1 Hz: {cost['core_share']:.3%} of a core")
    assert cost["core_share"] < 0.005
    assert state.missed == {}


def test_fifty_hertz_keeps_up() -> None:
    found, state = record(5.0, 50.0)
    print(f"50 Hz: {state.cost()['core_share']:.2%} of a core, missed {state.missed}")
    assert len(found) + sum(state.missed.values()) >= 240
    assert sum(state.missed.values()) <= 25
    assert "gpu_temperature_celsius" not in set().union(*(one.reading.values for one in found))


def test_gpm_sees_the_traffic_of_a_copy() -> None:
    """A copy within device memory: GPM's traffic is what the copy moved, within its window."""
    from assay import xp

    gaps = Gaps()
    source = Nvidia.find(gaps)
    assert source is not None
    source.read(fast_only=False)
    if any(one.field == "gpu_dram_active" for one in gaps.listed()):
        source.close()
        pytest.skip("GPM needs Hopper or later")
    count = 1 << 28
    left = xp.zeros(count, dtype=xp.float32, device="cuda:0")
    (left + 1.0)[:1].tolist()
    time.sleep(0.15)
    source.read(fast_only=False)
    begun, passes = time.monotonic(), 0
    while time.monotonic() - begun < 1.5:
        total = left + 1.0
        total[:1].tolist()
        passes += 1
    took = time.monotonic() - begun
    (reading, *_) = source.read(fast_only=False)
    source.close()
    moved = passes * 2 * 4 * count / took
    seen = float(reading.values["gpu_dram_bytes_per_second"])
    print(f"moved {moved / 1e12:.2f} TB/s, GPM saw {seen / 1e12:.2f} TB/s")
    assert seen == pytest.approx(moved, rel=0.25)
    assert float(reading.values["gpu_sm_active"]) > 0.05
