"""One GPU: peak rates by data sheet, and the clock-power-temperature loop by SciPy and a meter."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from assay.model import Registry
from assay.stack import gpu, hbm

MEASURED = Path(__file__).parents[1] / "data" / "h200_power.json"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([hbm.scope, gpu.scope])


@pytest.mark.parametrize(
    ("multiprocessors", "per_cycle", "clock", "sheet"),
    [
        (108, 2048, "1.41 GHz", 312e12),  # A100
        (132, 4096, "1.83 GHz", 989e12),  # H100 SXM; 67 TFLOP/s is its 32-bit rate
        (114, 4096, "1.62 GHz", 756e12),  # H100 PCIe
        (80, 1024, "1.53 GHz", 125e12),  # V100
    ],
)
def test_peak_of_data_sheets(
    registry: Registry, multiprocessors: int, per_cycle: int, clock: str, sheet: float
) -> None:
    given = {
        "gpu.multiprocessors": f"{multiprocessors} 1/GPU",
        "gpu.flops_per_cycle": f"{per_cycle} FLOP",
        "gpu.clock": clock,
    }
    assert registry.resolve("gpu.peak_flops", given).value == pytest.approx(sheet, rel=5e-3)


H200: dict[str, float] = {
    "gpu.power.energy_share": 1.0,
    "gpu.clock": 1.83e9,
    "gpu.memory.bandwidth": 4.8e12,
    "gpu.power.limit": 700.0,
    "gpu.power.idle": 75.0,
    "gpu.reference.clock": 1.83e9,
    "gpu.reference.top_clock": 1.83e9,
    "gpu.idle_activity": 0.026,
    "gpu.issue_activity": 0.117,
    "gpu.activity": 1.0,
    "gpu.memory.duty": 0.05,
    "gpu.cycle_energy": 5.875e-7,
    "gpu.voltage_slope": 0.6144,
    "gpu.voltage_floor": 0.7292,
    "gpu.power.leakage_reference": 9.33,
    "gpu.leakage_scale": 60.0,
    "gpu.thermal_resistance": 0.03696,
    "gpu.coolant_temperature": 312.0,
    "gpu.temperature_limit": 360.0,
    "hbm.access_energy": 6.397e-11,
}


def busy_power(given: dict[str, float], share: float) -> float:
    """Board power at a share of the boost clock, its temperature found by SciPy."""
    voltage = max(given["gpu.voltage_floor"], 1 - given["gpu.voltage_slope"] * (1 - share))

    def power_at(kelvin: float) -> float:
        leakage = given["gpu.power.leakage_reference"] * voltage
        leakage *= math.exp((kelvin - 300) / given["gpu.leakage_scale"])
        switching = given["gpu.activity"] * given["gpu.cycle_energy"] * given["gpu.clock"]
        memory = given["gpu.memory.duty"] * given["gpu.memory.bandwidth"]
        memory *= given["hbm.access_energy"]
        return given["gpu.power.idle"] + memory + leakage + switching * share * voltage**2

    def misfit(kelvin: float) -> float:
        warming = given["gpu.thermal_resistance"] * power_at(kelvin)
        return kelvin - given["gpu.coolant_temperature"] - warming

    return power_at(float(brentq(misfit, 200.0, 500.0, xtol=1e-12)))


def closed_loop(given: dict[str, float]) -> float:
    warming = given["gpu.temperature_limit"] - given["gpu.coolant_temperature"]
    ceiling = min(given["gpu.power.limit"], warming / given["gpu.thermal_resistance"])
    if busy_power(given, 1.0) <= ceiling:
        return 1.0
    return float(brentq(lambda share: busy_power(given, share) - ceiling, 1e-6, 1.0, xtol=1e-14))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"gpu.power.limit": 400.0},
        {"gpu.activity": 0.3},
        {"gpu.coolant_temperature": 340.0},  # the die's limit acts before the board's
        {"gpu.power.leakage_reference": 40.0, "gpu.leakage_scale": 50.0},
        {"gpu.memory.duty": 0.9, "gpu.power.limit": 550.0},
    ],
)
def test_closed_loop(registry: Registry, change: dict[str, float]) -> None:
    given = {**H200, **change}
    found = registry.resolve("gpu.throttle", given)
    assert found.value == pytest.approx(closed_loop(given), rel=1e-9)


def test_board_power_equals_the_power_limit(registry: Registry) -> None:
    found = registry.resolve("gpu.power", {**H200, "gpu.duty": 0.5}).values
    assert found["gpu.power.busy"] == pytest.approx(700.0, rel=1e-9)
    leakage = 9.33 * math.exp((312 - 300) / 60)
    waiting = 75 + leakage + 0.026 * 5.875e-7 * 1.83e9
    assert found["gpu.power.waiting"] == pytest.approx(waiting, rel=1e-12)
    assert found["gpu.power"] == pytest.approx(waiting + 0.5 * (700 - waiting), rel=1e-9)


def test_power_limit_below_static_power_violates_power_cap(registry: Registry) -> None:
    found = registry.resolve("gpu.power.busy", {**H200, "gpu.power.limit": 60.0})
    assert found.values["gpu.throttle"] == pytest.approx(0.0, abs=1e-12)
    assert {v.name for v in found.constraints if v.status == "false"} == {"gpu.power_cap"}


def test_power_can_be_given(registry: Registry) -> None:
    assert registry.resolve("gpu.power", {"gpu.power": 500.0}).value == 500.0


def test_compiled_loop_and_jacobian_match_closed_loop(registry: Registry) -> None:
    names = list(H200)
    loop = registry.compile(inputs=names, outputs=["gpu.throttle"])
    limits = np.linspace(200.0, 900.0, 15)
    values: list[Any] = [limits if n == "gpu.power.limit" else H200[n] for n in names]
    expected = [closed_loop({**H200, "gpu.power.limit": limit}) for limit in limits]
    assert loop(*values)[0] == pytest.approx(expected, rel=1e-9)
    slope = loop.jacobian(*H200.values(), wrt=["gpu.power.limit"])[0]
    step = 1e-3
    above, below = ({**H200, "gpu.power.limit": 700.0 + s} for s in (step, -step))
    difference = (closed_loop(above) - closed_loop(below)) / (2 * step)
    assert float(np.ravel(slope)[0]) == pytest.approx(difference, rel=1e-5)


def test_board_power_of_an_h200(registry: Registry) -> None:
    """Measured at locked clocks: products of random numbers within 2 %, of zeros within 2 %."""
    activity = {"random": 1.0, "zeros": 0.3878}
    for point in json.loads(MEASURED.read_text())["locked"]:
        given = {
            **H200,
            "gpu.throttle": point["megahertz"] * 1e6 / 1.83e9,
            "gpu.activity": activity[point["load"]],
        }
        found = registry.resolve("gpu.power.busy", given).value
        assert found == pytest.approx(point["watts"], rel=0.02), point


def test_rate_of_an_h200_under_power_limits(registry: Registry) -> None:
    """No run under a limit entered the fit: the rate follows the predicted clock within 8 %."""
    points = json.loads(MEASURED.read_text())["limited"]
    throttle = [
        registry.resolve("gpu.throttle", {**H200, "gpu.power.limit": point["limit"]}).value or 0.0
        for point in points
    ]
    for point, share in zip(points, throttle, strict=True):
        measured = point["teraflops"] / points[-1]["teraflops"]
        assert share / throttle[-1] == pytest.approx(measured, rel=0.08), point
