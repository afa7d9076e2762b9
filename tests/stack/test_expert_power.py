"""What the experts of a mixture switch: whole instructions of tensor cores, and the conversion of narrow weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.catalog import engines, models
from assay.model import Registry
from assay.scenario.includes import ENGINE_VARIANTS
from assay.stack import registry as whole_stack
from assay.validate.serving.predict import hardware

DECODE = Path(__file__).parents[1] / "data" / "vllm_h200_decode_qwen3_30b_a3b.json"
LAYERS, EXPERTS, CHOSEN, WEIGHTS = 48, 128, 8, 3 * 2048 * 768
"""Of Qwen3-30B-A3B, with the weights of an expert."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def given(**changes: float) -> dict[str, float]:
    choices = {
        "tensor": 1, "pipeline": 1, "expert": 1, "attention_replicas": 1, "compute_bits": 16, "expert_bits": 16,
        "weight_bytes": 2, "expert_bytes": 2, "kv_bytes": 2, "prompt": 1, "output": 414, "static": 1, "separate": 0,
        "group_limit": 1000, "batch_limit": 512, **changes,
    }  # fmt: skip
    board = hardware("h200_sxm")
    return {
        **board,
        "gpu.coolant_temperature": board["gpu.reference.coolant_temperature"],
        **engines.given("vllm", "offline"),
        **models.find("qwen3-30b-a3b").given,
        **{f"serving.{name}": float(value) for name, value in choices.items()},
    }


def ask(registry: Registry, name: str, values: dict[str, float]) -> float:
    return registry.resolve(name, dict(values), ENGINE_VARIANTS).require_value()


@pytest.mark.parametrize("batch", [4, 16, 64])
def test_power_of_a_mixture_that_vllm_decodes_on_an_h200(registry: Registry, batch: int) -> None:
    """At measured step times; without rows of instructions it was 10 to 18 % too little."""
    (point,) = [p for p in json.loads(DECODE.read_text()) if p["batch"] == batch]
    seconds = point["step_ms"] / 1e3
    values = given(concurrency=batch, batch=batch)
    busy, waiting, duty, time = (
        ask(registry, name, values)
        for name in ("gpu.power.busy", "gpu.power.waiting", "serving.duty", "serving.decode.time")
    )
    power = waiting + min(duty * time / seconds, 1) * (busy - waiting)
    measured = point["joules_per_token"] * batch / seconds
    assert power == pytest.approx(measured, rel=0.11)


def test_an_expert_with_a_token_switches_a_whole_instruction(registry: Registry) -> None:
    values = given(concurrency=4, batch=4)
    touched = EXPERTS * (1 - (1 - CHOSEN / EXPERTS) ** 4)
    empty = touched * 16 - 4 * CHOSEN
    issued, useful = (
        ask(registry, f"serving.decode.{name}", values) for name in ("issued_flops", "flops")
    )
    # Attention pads its queries too, next to nothing at 208 tokens of context.
    assert issued - useful == pytest.approx(2 * empty * WEIGHTS * LAYERS, rel=0.05)


def test_conversion_is_counted_where_narrow_weights_are_multiplied_in_16_bits(
    registry: Registry,
) -> None:
    plain, converted, native = (
        ask(registry, "serving.decode.issued_flops", given(concurrency=64, batch=64, **formats))
        for formats in (
            {}, {"expert_bytes": 0.53125}, {"expert_bytes": 0.53125, "expert_bits": 8},
        )
    )  # fmt: skip
    touched = EXPERTS * (1 - (1 - CHOSEN / EXPERTS) ** 64)
    assert converted - plain == pytest.approx(2 * 24 * touched * WEIGHTS * LAYERS, rel=1e-6)
    assert native == pytest.approx(plain)
