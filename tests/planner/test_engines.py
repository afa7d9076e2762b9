"""Engines of the catalog in predictions: published figures of each, and what is borrowed."""

from __future__ import annotations

import pytest

from assay.planner.evaluation import engine_constants
from assay.planner.predict import predict_graph
from assay.planner.questions import predict_load, predict_step, sweep_steps
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig


@pytest.mark.parametrize(
    ("engine", "gpu", "model", "tensor", "batch", "lengths", "measured"),
    [
        ("sglang", "h200_sxm", "deepseek-v3", 8, 16, (1024, 1024), 16.63),
        ("sglang", "b200_sxm", "deepseek-v3", 8, 16, (1024, 1024), 11.71),
        ("sglang", "b200_sxm", "qwen3.5-397b-a17b", 4, 32, (1024, 1024), 13.80),
        ("tensorrt-llm", "h200_sxm", "deepseek-v3", 8, 16, (1024, 1024), 20.39),
    ],
)
def test_output_tokens_of_other_engines_take_as_long_as_published(
    engine: str, gpu: str, model: str, tensor: int, batch: int, lengths: tuple[int, int],
    measured: float,
) -> None:  # fmt: skip
    """Reference points of aiconfigurator (InferenceX): DeepSeek-R1 and Qwen3.5 in FP8."""
    step = predict_graph(
        model_spec(model),
        hardware_spec(gpu),
        BatchConfig(
            sequences=batch, context=lengths[0] + lengths[1] // 2, tensor=tensor, engine=engine,
            weight_dtype="fp8",
        ),
    ).totals["step"]  # fmt: skip
    assert step.lo is not None
    assert step.hi is not None
    assert step.lo <= measured * 1e6 <= step.hi
    assert step.value / 1e6 == pytest.approx(measured, rel=0.2)


def test_constants_are_the_engine_s_own_and_borrowed_ones_are_named() -> None:
    own = {name: engine_constants(name).given for name in ("vllm", "sglang", "trtllm")}
    assert len({values["serving.host_time"] for values in own.values()}) == 3
    assert own["sglang"]["serving.memory_share"] == 0.88
    assert engine_constants("sglang").borrowed == ("serving.launch_time",)
    assert engine_constants("vllm").borrowed == ()
    graph = predict_step("llama-3.1-8b", "h200", engine="sglang", cuda_graphs=False)
    assert any("borrowed from vLLM: serving.launch_time" in note for note in graph.notes)
    load = predict_load("llama-3.1-8b", "h200", [5.0], engine="TensorRT-LLM")
    assert any("fitted to published figures of trtllm" in note for note in load.notes)


def test_engines_are_swept_like_other_settings() -> None:
    answer = sweep_steps("llama-3.1-8b", ["h200"], {"engine": ["vllm", "sglang", "tensorrt-llm"]})
    assert len({round(value, 9) for value in answer.steps.tokens_per_second.tolist()}) == 3
