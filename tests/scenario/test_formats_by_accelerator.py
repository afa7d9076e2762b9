"""Fewer bits are never slower, on any accelerator that has the format (dense model)."""

from __future__ import annotations

import pytest

from assay import stack
from assay.catalog import accelerators
from assay.scenario import built_in, include

BYTES = {16: 2.0, 8: 1.0, 4: 0.5625}
# With and without fitted constants, with and without FP4; the whole catalog takes a minute.
NAMES = ("h200_sxm", "b200_sxm", "l4", "mi355x")


def formats(name: str) -> list[int]:
    given = accelerators.find(name).given
    rates = {16: 1.0, 8: given["gpu.rate_fp8"], 4: given["gpu.rate_fp4"]}
    return [bits for bits, rate in rates.items() if rate]


@pytest.mark.parametrize("name", NAMES)
def test_fewer_bits_train_and_serve_no_slower(name: str) -> None:
    registry = stack.registry()
    part = include(f"accelerators/{name}", registry)
    training = built_in.preset("llama3_8b_8_h100_training").with_includes([part])
    serving = built_in.preset("llama3_8b_h200_serving").with_includes([part])
    steps, rates = [], []
    for bits in formats(name):
        given = {**training.exact_inputs.given, "training.compute_bits": float(bits)}
        found = registry.resolve("training.step_time", given, training.variants)
        steps.append(found.require_value())
        given = {
            **serving.exact_inputs.given,
            "serving.compute_bits": float(bits),
            "serving.weight_bytes": BYTES[bits],
        }
        found = registry.resolve("serving.throughput", given, serving.variants)
        rates.append(found.require_value())
    assert len(steps) >= 2
    assert steps == sorted(steps, reverse=True)
    assert rates == sorted(rates)
