"""Bandwidths and times between what was measured, on a machine of known laws."""

import math
from typing import Any

import pytest

from assay.errors import InputError
from assay.planner.calibrate.lookup import affine, linear_seconds, read_bandwidth, seconds_of
from assay.planner.specs import Ceiling

OVERHEAD, RATE, FLOPS = 5e-6, 2e10, 4e11


def layer_seconds(rows: int, outputs: int, inputs: int) -> float:
    """A machine that reads one byte a weight, or computes, whichever takes longer."""
    weights = outputs * inputs
    return OVERHEAD + max(weights / RATE, 2.0 * rows * weights / FLOPS)


def layer(rows: int, outputs: int, inputs: int) -> Ceiling:
    weights = outputs * inputs
    in_bytes = rows <= 8
    amount = weights if in_bytes else 2.0 * rows * weights
    value = amount / layer_seconds(rows, outputs, inputs)
    parameters: dict[str, Any] = {
        "operation": "linear", "dtype": "q8_0", "rows": rows, "outputs": outputs,
        "inputs": inputs, "bytes": weights, "flops": 2.0 * rows * weights, "threads": 2,
    }  # fmt: skip
    return Ceiling(value, value, value, "byte/s" if in_bytes else "FLOP/s", 9, parameters)


def read(nbytes: int, value: float) -> Ceiling:
    parameters = {"operation": "read", "bytes": nbytes, "threads": 2}
    return Ceiling(value, value, value, "byte/s", 9, parameters)


CEILINGS = {
    "small": layer(1, 512, 512),
    **{f"large {rows}": layer(rows, 2048, 2048) for rows in (1, 8, 64, 256)},
    "cache": read(1 << 20, 1e11),
    "memory": read(1 << 28, RATE),
}


def test_seconds_of_a_ceiling() -> None:
    assert seconds_of(CEILINGS["small"]) == pytest.approx(layer_seconds(1, 512, 512))
    assert seconds_of(CEILINGS["large 64"]) == pytest.approx(layer_seconds(64, 2048, 2048))
    assert seconds_of(Ceiling(3e-6, 2e-6, 4e-6, "s")) == 3e-6


def test_overhead_and_rate_of_a_gemv() -> None:
    found = affine([CEILINGS["small"], CEILINGS["large 1"]])
    assert found is not None
    assert found == pytest.approx((OVERHEAD, RATE))
    assert found.seconds(1e6) == pytest.approx(OVERHEAD + 1e6 / RATE)
    assert affine([CEILINGS["small"]]) is None
    assert affine([]) is None


def test_noise_gives_no_negative_rate() -> None:
    slow = Ceiling(1e6, 1e6, 1e6, "byte/s", 9, {"bytes": 512 * 512})
    found = affine([slow, CEILINGS["large 1"]])
    assert found is not None
    assert found.rate > 0
    assert found.overhead >= 0


@pytest.mark.parametrize("shape", [(576, 576), (1536, 576), (49152, 576)])
@pytest.mark.parametrize("rows", [1, 8, 64, 256, 1024])
def test_time_of_a_layer_that_was_not_measured(rows: int, shape: tuple[int, int]) -> None:
    found = linear_seconds(CEILINGS, "q8_0", rows, *shape)
    assert found == pytest.approx(layer_seconds(rows, *shape), rel=1e-6)


def test_a_working_set_in_the_cache_is_read_faster() -> None:
    cold = linear_seconds(CEILINGS, "q8_0", 1, 576, 576, working_set=1 << 30)
    warm = linear_seconds(CEILINGS, "q8_0", 1, 576, 576, working_set=1 << 19)
    assert cold == pytest.approx(layer_seconds(1, 576, 576))
    assert warm == pytest.approx(OVERHEAD + 576 * 576 / RATE / 5)


def test_bandwidth_between_sizes() -> None:
    assert read_bandwidth(CEILINGS, 1 << 10) == pytest.approx(1e11)
    assert read_bandwidth(CEILINGS, 1 << 32, threads=2) == pytest.approx(RATE)
    # Half way on a logarithmic scale: the mean of the times per byte.
    middle = read_bandwidth(CEILINGS, math.sqrt((1 << 20) * (1 << 28)))
    assert middle == pytest.approx(2 / (1 / 1e11 + 1 / RATE))


def test_what_was_not_measured_is_named() -> None:
    with pytest.raises(InputError, match="no linear layer of q4_1 weights was measured"):
        linear_seconds(CEILINGS, "q4_1", 1, 64, 64)
    with pytest.raises(InputError, match="on 3 threads, only on 2"):
        read_bandwidth(CEILINGS, 1e6, threads=3)
