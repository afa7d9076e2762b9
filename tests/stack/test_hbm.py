"""Memory stacks against data sheets."""

from __future__ import annotations

import pytest

from assay.model import Registry
from assay.stack import gpu, hbm

HBM3 = {
    "hbm.channels_per_stack": 16,
    "hbm.pins_per_channel": 64,
    "hbm.pin_rate": "6.4 Gbit/s",
    "hbm.dies_per_stack": 8,
    "hbm.die_capacity": "2 GB",
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([hbm.scope, gpu.scope])


@pytest.mark.parametrize(
    ("target", "value"),
    [("channel_bandwidth", 51.2e9), ("stack_bandwidth", 819.2e9), ("stack_capacity", 16e9)],
)
def test_hbm3(registry: Registry, target: str, value: float) -> None:
    assert registry.resolve(f"hbm.{target}", HBM3).value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("stacks", "channels", "pins", "rate", "sheet"),
    [
        (5, 8, 128, "2.43 Gbit/s", 1555e9),  # A100 40 GB
        (5, 8, 128, "3.19 Gbit/s", 2039e9),  # A100 80 GB
        (5, 16, 64, "5.23 Gbit/s", 3350e9),  # H100 SXM
        (6, 16, 64, "6.25 Gbit/s", 4800e9),  # H200
        (8, 16, 64, "5.2 Gbit/s", 5300e9),  # MI300X
    ],
)
def test_bandwidth_of_data_sheets(
    registry: Registry, stacks: int, channels: int, pins: int, rate: str, sheet: float
) -> None:
    given = {
        "hbm.stacks": f"{stacks} 1/GPU",
        "hbm.channels_per_stack": channels,
        "hbm.pins_per_channel": pins,
        "hbm.pin_rate": rate,
    }
    found = registry.resolve("gpu.memory.bandwidth", given).value
    assert found == pytest.approx(sheet, rel=5e-3)


def test_capacity_of_an_h100(registry: Registry) -> None:
    found = registry.resolve("gpu.memory.capacity", {**HBM3, "hbm.stacks": "5 1/GPU"}).value
    assert found == pytest.approx(80e9, rel=1e-12)
