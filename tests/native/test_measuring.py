"""Speeds of the core that Rust times itself: what they count, and what they refuse."""

from __future__ import annotations

import pytest

from assay._native import measure_pool, measure_scheduler
from assay.errors import DeviceError


def test_pairs_on_the_pool_take_time() -> None:
    assert measure_pool(20_000, smallest_bytes=1024, largest_bytes=1024, live=1) > 0
    with pytest.raises(DeviceError, match="measure_pool: expected at least one pair"):
        measure_pool(0)


def test_guaranteed_rate_holds_and_the_rest_is_shared_by_weight() -> None:
    second = 1_000_000_000
    flood = [("best-effort", weight, 0, 100_000, 32) for weight in (1, 3)]
    found = measure_scheduler(
        [("guaranteed", 1, 300_000_000, 100_000, 32), *flood],
        units_per_second=1_000_000_000,
        virtual_ns=2 * second,
    )
    kept, light, heavy = found["units"]
    assert kept >= 0.99 * 2 * 300_000_000
    assert heavy / light == pytest.approx(3.0, rel=0.02)
    assert kept + light + heavy == pytest.approx(2 * 1_000_000_000, rel=0.001)
    assert found["decisions"] > sum(found["grants"])
    assert found["elapsed_ns"] > 0


def test_impossible_loads_are_refused_by_name() -> None:
    with pytest.raises(DeviceError, match=r'expected class guaranteed, .* got "royal"'):
        measure_scheduler([("royal", 1, 0, 1, 1)])
    with pytest.raises(DeviceError, match="reserv"):
        measure_scheduler([("guaranteed", 1, 2_000_000_000, 1, 1)])
