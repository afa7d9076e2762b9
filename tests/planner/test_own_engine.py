"""The engine of Assay: its very graph, its measured steps, formats and devices."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from small_models import fixture_engine

import assay
from assay.catalog import models
from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import InputError
from assay.observe.trace import Trace
from assay.planner import (
    BatchConfig,
    Ceiling,
    HardwareSpec,
    ModelSpec,
    hardware_spec,
    model_spec,
    predict_graph,
)
from assay.planner.calibrate.given import cpu_values
from assay.planner.own_engine import FUSED_ROWS
from assay.planner.sources import from_model

ROOT = Path(__file__).parents[2]
H200 = hardware_spec("h200")
OWN = {"engine": "assay"}


def cpu() -> HardwareSpec:
    """A CPU of round numbers: 10 GB/s, GEMVs at 8 GB/s, 1 us an operation."""
    ceilings = {}

    def add(operation: str, value: float, unit: str, **parameters: object) -> None:
        name = f"{operation} {len(ceilings)}"
        ceilings[name] = Ceiling(
            value, value / 1.1, value * 1.1, unit, 5, {"operation": operation, "threads": 2, **parameters}
        )  # fmt: skip

    for size in (1 << 20, 1 << 28):
        add("read", 1e10, "byte/s", bytes=size)
    for dtype, element in (("f32", 4.0), ("bf16", 2.0), ("q8_0", 34 / 32), ("q4_1", 20 / 32)):
        for width, rows in ((512, 1), (2048, 1), (2048, 8), (2048, 64), (2048, 256)):
            weights = width * width
            seconds = 1e-6 + max(weights * element / 8e9, 2 * rows * weights / 2e11)
            if rows == 1:
                add("linear", weights * element / seconds, "byte/s", dtype=dtype, rows=rows,
                    outputs=width, inputs=width, bytes=weights * element)  # fmt: skip
            else:
                add("linear", 2 * rows * weights / seconds, "FLOP/s", dtype=dtype, rows=rows,
                    outputs=width, inputs=width, flops=2 * rows * weights, bytes=weights * element)  # fmt: skip
    for size in (1 << 18, 1 << 23):
        add("decode attention", size / (1e-6 + size / 9e9), "byte/s", dtype="bf16", bytes=size)
    add("prefill attention", 5e10, "FLOP/s", dtype="bf16", flops=1e9, bytes=1e6)
    add("graph node", 2e-7, "s")
    given = cpu_values(32 << 20, ceilings)
    return HardwareSpec("a CPU", given.given, "a file", ceilings, given.notes)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2"])
def test_nodes_are_the_operations_that_the_engine_runs(name: str, tmp_path: Path) -> None:
    with fixture_engine(name, device="cpu") as engine:
        with assay.capture(tmp_path / "trace") as capture:
            engine.generate([[1, 2, 3]] * 2, SamplingParams(max_tokens=4, ignore_eos=True))
        shape = engine.model.shape
    recorded = recorded_step(capture.trace)
    graph = predict_graph(spec_of(name, shape.layers), cpu(), BatchConfig(sequences=2, **OWN))
    predicted = [(node.layer, node.operation) for node in graph if node.stream >= 0]
    assert predicted == recorded


def test_nodes_of_experts_are_the_operations_that_the_engine_runs(tmp_path: Path) -> None:
    files = synthetic_model("qwen3_moe")
    with Engine.load(files, "cpu") as engine, assay.capture(tmp_path / "trace") as capture:
        engine.generate([[1, 2, 3]] * 2, SamplingParams(max_tokens=4, ignore_eos=True))
    model = from_model(
        models.from_config({**files.config, "model_type": "qwen3_moe"}, "moe"), "q8_0"
    )
    batch = BatchConfig(sequences=2, weight_dtype="q8_0", kv_dtype="f32", **OWN)
    graph = predict_graph(model, cpu(), batch)
    predicted = [(node.layer, node.operation) for node in graph if node.stream >= 0]
    assert predicted == recorded_step(capture.trace)
    up = graph.of("experts_gate_up+experts_activation")[0]
    shapes = model.architecture
    # Two tokens: each touched expert is a GEMV at 8 GB/s, and costs the overhead of an operation.
    touched = shapes["experts"] * (1 - (1 - shapes["experts_per_token"] / shapes["experts"]) ** 2)
    weights = 2 * shapes["hidden"] * shapes["expert_ffn"] * 34 / 32
    assert up.expected_ns == pytest.approx(touched * (1e3 + weights / 8), rel=0.25)


def recorded_step(trace: Trace) -> list[tuple[int | None, str]]:
    """Layers and operations of the kernels of the first decode step."""
    steps = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")
    events = trace.events.filter(
        (pl.col("kind").cast(pl.String) == "kernel") & (pl.col("step") == steps["step"][0])
    )
    return list(zip(events["layer"], events["op"].cast(pl.String), strict=True))


def spec_of(name: str, layers: int) -> ModelSpec:
    config = {
        "llama": {"model_type": "llama"}, "qwen3": {"model_type": "qwen3"},
        "gpt2": {"model_type": "gpt2", "n_positions": 64},
    }[name] | {
        "num_hidden_layers": layers, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "intermediate_size": 128,
    }  # fmt: skip
    return from_model(models.from_config(config, name), "q8_0")


def test_measured_steps_on_an_h200() -> None:
    model = model_spec("llama-3-8b-shape")
    stored = json.loads((ROOT / "bench/results/decode-h200.json").read_text())["figures"]
    steps = [
        one for one in stored
        if "requests" in one["parameters"] and not one["name"].startswith("deterministic")
    ]  # fmt: skip
    assert len(steps) >= 6
    for one in steps:
        asked = one["parameters"]
        dtype = "fp8" if asked["weight_format"] == "fp8" else "bf16"
        batch = BatchConfig(
            sequences=asked["requests"], context=asked["prompt"] + 72, weight_dtype=dtype, **OWN
        )
        step = predict_graph(model, H200, batch).totals["step"]
        assert step.lo <= one["value"] * 1e6 <= step.hi, one["name"]
        assert abs(step.value / 1e6 / one["value"] - 1) < 0.18, one["name"]


def test_measured_steps_with_experts_on_an_h200() -> None:
    """Constants come from grouped GEMMs alone and from the step of one token; the others follow."""
    model = model_spec("qwen3-30b-a3b")
    stored = json.loads((ROOT / "bench/results/decode-experts-h200.json").read_text())["figures"]
    steps = [
        one for one in stored
        if one["parameters"]["weight_format"] == "file" and one["name"].startswith("batch")
    ]  # fmt: skip
    assert len(steps) == 3
    for one in steps:
        asked = one["parameters"]
        batch = BatchConfig(sequences=asked["requests"], context=asked["prompt"] + 72, **OWN)
        graph = predict_graph(model, H200, batch)
        step = graph.totals["step"]
        assert step.lo <= one["value"] * 1e6 <= step.hi, one["name"]
        assert abs(step.value / 1e6 / one["value"] - 1) < 0.05, one["name"]
        assert sum(node.expected_ns for node in graph) == pytest.approx(step.value, rel=1e-9)


def test_grouped_gemms_of_an_h200() -> None:
    stored = json.loads((ROOT / "bench/results/grouped-gemm-h200.json").read_text())["figures"]
    model = model_spec("qwen3-30b-a3b")
    for one in stored:
        graph = predict_graph(model, H200, BatchConfig(sequences=one["tokens"], **OWN))
        is_up = one["inputs"] == model.architecture["hidden"]
        node = graph.of("experts_gate_up+experts_activation" if is_up else DOWN)[0]
        # The equation has the expected number of touched experts, the measurement its own.
        touched = 128 * (1 - (1 - 8 / 128) ** one["tokens"])
        expected = node.expected_ns / 1e3 * one["touched"] / touched
        assert expected == pytest.approx(one["us"], rel=0.1), one


DOWN = "experts_down+expert_combine"


def test_experts_are_fused_as_the_capabilities_say() -> None:
    model = model_spec("qwen3-30b-a3b")

    def names(sequences: int) -> list[str]:
        graph = predict_graph(model, H200, BatchConfig(sequences=sequences, **OWN))
        return [node.operation for node in graph if node.layer == 3][-4:]

    router, up = "post_attention_norm+router+router_topk", "experts_gate_up+experts_activation"
    assert names(4) == ["o_proj", router, up, DOWN]
    assert names(5) == [router, up, DOWN, DOWN]


def test_what_is_fused_is_what_the_kernels_fuse() -> None:
    source = (ROOT / "crates/assay-cuda/src/operations/small_m_gemm.rs").read_text()
    (rows,) = re.findall(r"const ROWS: RangeInclusive<u64> = 3\.\.=(\d+);", source)
    assert int(rows) == FUSED_ROWS
    model = model_spec("llama-3-8b-shape")

    def names(sequences: int, kv_dtype: str = "bf16") -> list[str]:
        batch = BatchConfig(sequences=sequences, kv_dtype=kv_dtype, **OWN)
        return [node.operation for node in predict_graph(model, H200, batch) if node.layer == 3]

    assert names(1, "int8")[1:3] == ["rope+kv_cache_write", "attention"]
    assert names(1, "fp8") == names(1)
    assert names(1) == [
        "input_norm+qkv_proj", "rope+kv_cache_write+attention", "o_proj",
        "post_attention_norm+gate_up_proj+activation", "down_proj",
    ]  # fmt: skip
    assert names(64) == [
        "input_norm", "qkv_proj", "rope+kv_cache_write", "attention", "o_proj",
        "post_attention_norm", "gate_up_proj", "activation", "down_proj",
    ]  # fmt: skip


LINEAR_US = {
    "bf16": (52.78, 55.32, 62.86, 91.54), "fp8": (28.83, 50.94, 591.0, 619.7),
    "int8": (28.02, 60.55, 592.1, 622.1), "int4": (16.24, 53.23, 591.1, 619.9),
    "q8_0": (28.95, 96.44, 595.1, 623.8), "q4_1": (20.41, 105.1, 591.9, 621.4),
}  # fmt: skip
"""Linear layers of 28672 by 4096 at 1, 8, 64 and 256 tokens: `assay calibrate` on an H200."""


@pytest.mark.parametrize("dtype", LINEAR_US)
def test_linear_layers_of_every_format(dtype: str) -> None:
    model = model_spec("llama-3-8b-shape")
    for rows, measured in zip((1, 8, 64, 256), LINEAR_US[dtype], strict=True):
        batch = BatchConfig(sequences=rows, weight_dtype=dtype, **OWN)
        graph = predict_graph(model, H200, batch)
        node = next(one for one in graph if one.layer == 0 and "gate_up_proj" in one.name)
        assert node.expected_ns / 1e3 == pytest.approx(measured, rel=0.12), rows
        assert any("dequantized" in n for n in graph.degradations) is (rows > 8 and dtype != "bf16")


def test_a_cpu_reads_weights_at_the_measured_rate() -> None:
    hardware = cpu()
    model = model_spec("smollm2-135m")
    graph = predict_graph(
        model, hardware, BatchConfig(context=16, weight_dtype="q4_1", kv_dtype="f32", **OWN)
    )
    shapes = model.architecture
    weights = 2 * shapes["hidden"] * shapes["ffn"] * 20 / 32
    node = graph.of("post_attention_norm+gate_up_proj+activation")[0]
    assert node.expected_ns == pytest.approx(1e3 + weights / 8, rel=0.02)
    assert node.floor_ns == pytest.approx(weights / 10, rel=1e-6)
    assert node.lo_ns < node.expected_ns < node.hi_ns
    step = graph.totals["step"].value
    assert sum(one.expected_ns for one in graph) == pytest.approx(step, rel=1e-9)
    assert "power" in graph.missing


@pytest.mark.parametrize(
    ("model", "batch", "message"),
    [
        ("qwen3-30b-a3b", BatchConfig(weight_dtype="fp8", **OWN), "bf16 or f16"),
        ("deepseek-v3", BatchConfig(**OWN), "layers of attention"),
        ("llama-3.1-8b", BatchConfig(tensor=2, **OWN), "one device"),
    ],
)
def test_what_the_engine_does_not_run_is_named(
    model: str, batch: BatchConfig, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        predict_graph(model_spec(model), H200, batch)


def test_vllm_needs_a_gpu() -> None:
    with pytest.raises(InputError, match="expected a GPU"):
        predict_graph(model_spec("smollm2-135m"), cpu())
