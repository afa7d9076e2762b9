"""The floor of counted work, against sums by hand."""

import pytest

from assay.errors import InputError
from assay.planner.counted import Work, floor_seconds
from assay.planner.specs import Ceiling, HardwareSpec


def ceiling(size: float, rate: float) -> Ceiling:
    return Ceiling(rate, rate, rate, "byte/s", 1, {"operation": "read", "bytes": size})


def test_each_operation_takes_the_longer_of_arithmetic_and_bytes() -> None:
    ceilings = {"cache": ceiling(1e3, 1e9), "memory": ceiling(1e6, 1e8), "slow": ceiling(1e6, 5e7)}
    here = HardwareSpec("here", {"gpu.peak_flops": 1e9}, "", ceilings)
    arithmetic, memory, cached, tiny = (
        Work(3e9, 10.0),
        Work(1e6, 1e8),
        Work(0.0, 2e3),
        Work(0.0, 5.0),
    )
    assert floor_seconds([arithmetic], here) == pytest.approx(3.0)
    assert floor_seconds([memory], here) == pytest.approx(1.0)
    assert floor_seconds([cached], here) == pytest.approx(2e-6)
    assert floor_seconds([tiny], here) == pytest.approx(5e-9)
    assert floor_seconds([arithmetic, memory], here) == pytest.approx(4.0)
    # A format with a faster product than the peak's is the better bound.
    fast = {"linear": Ceiling(3e9, 3e9, 3e9, "FLOP/s", 1, {"operation": "linear"})}
    here = HardwareSpec("here", {"gpu.peak_flops": 1e9}, "", {**ceilings, **fast})
    assert floor_seconds([arithmetic], here) == pytest.approx(1.0)


def test_a_machine_without_bandwidths_has_no_floor() -> None:
    with pytest.raises(InputError, match="expected a calibration"):
        floor_seconds([Work(1.0, 1.0)], HardwareSpec("h200", {"gpu.peak_flops": 1e9}, "catalog"))
