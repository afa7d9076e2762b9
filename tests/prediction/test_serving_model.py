from __future__ import annotations

import json
from pathlib import Path

import pytest

from prediction.accelerators import ACCELERATORS
from prediction.serving_cases import DEEPSEEK, LLAMA_8B, Figure, predict
from prediction.serving_model import (
    Architecture,
    Placement,
    expert_time,
    iteration_time,
    kv_size,
    weight_size,
)

CALIBRATION = Path(__file__).parents[2] / "python/assay/catalog/calibration/serving.json"
FP8 = Placement(1, 1, 1, 8, 1.0, 1.0, 1.0)
LLAMA_70B = Architecture(80, 8192, 64, 8, 128, 28672, 128256)


def constants(family: str, engine: str) -> dict[str, float]:
    found = {}
    for row in json.loads(CALIBRATION.read_text())["constants"]:
        name, _, owner = row["name"].partition("/")
        if row["family"] in ("*", family) and owner in ("", engine):
            found[name] = row["value"]
    return found


@pytest.mark.parametrize(
    ("batch", "context", "milliseconds"),
    [(1, 208, 4.932), (64, 208, 6.023), (256, 208, 10.872), (32, 4176, 9.244), (8, 12080, 8.000)],
)
def test_measured_decode_steps_are_predicted(batch: int, context: int, milliseconds: float) -> None:
    table = constants("H200", "vllm")
    step = iteration_time(table, ACCELERATORS["H200"], LLAMA_8B, Placement(), batch, context)
    assert step * 1e3 == pytest.approx(milliseconds, rel=0.06)


@pytest.mark.parametrize(
    ("accelerator", "model", "prompt", "output", "rate"),
    [
        # TensorRT-LLM 1.0 performance overview, output tokens per second, one GPU in fp8.
        ("H200", LLAMA_8B, 128, 2048, 26221),
        ("H200", LLAMA_8B, 2048, 128, 3538),
        ("H100", LLAMA_8B, 2048, 2048, 9305),
        ("H200", LLAMA_70B, 128, 2048, 4336),
        ("H200", LLAMA_70B, 20000, 2000, 283),
    ],
)
def test_saturated_throughput_is_predicted(
    accelerator: str, model: Architecture, prompt: int, output: int, rate: float
) -> None:
    figure = Figure(
        "", "", "", "trtllm", accelerator, model, FP8, (rate,), "saturated", prompt, output
    )
    (found,) = predict(constants(accelerator, "trtllm"), figure)
    assert found == pytest.approx(rate, rel=0.15)


def test_sizes_of_weights_and_cache() -> None:
    # Llama-3.1-8B has 8.03e9 weights in two bytes; DeepSeek-V3 671e9, mostly in one.
    assert weight_size(LLAMA_8B, Placement()) == pytest.approx(2 * 8.03e9, rel=0.001)
    assert weight_size(DEEPSEEK, FP8) == pytest.approx(671e9, rel=0.01)
    assert kv_size(LLAMA_8B, Placement()) == 32 * 4096
    assert kv_size(DEEPSEEK, Placement()) == 61 * 1152


def test_one_token_reads_only_its_experts() -> None:
    table = constants("H200", "vllm") | {"expert_start": 0.0, "launch": 0.0}
    device = ACCELERATORS["H200"]
    one, many = (expert_time(table, device, DEEPSEEK, FP8, tokens) for tokens in (1, 256))
    assert many / one > 256 / 9 / 2
