"""The predicted graph: measured steps, additivity, floors, and how names are resolved."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

import assay
from assay.catalog import models
from assay.errors import AssayError, InputError
from assay.observe.operations import is_operation
from assay.planner import (
    BatchConfig,
    Ceiling,
    Graph,
    evaluation,
    hardware_spec,
    model_spec,
    predict_graph,
)
from assay.planner.calibrate import Calibration, save
from assay.planner.plan import plan_step
from assay.stack import registry

DATA = Path(__file__).parents[1] / "data"
H200 = hardware_spec("h200")


def step_ms(graph: Graph) -> float:
    return graph.totals["step"].value / 1e6


@pytest.mark.parametrize(
    ("file", "model", "median", "worst"),
    [
        ("vllm_h200_decode_llama8b.json", "llama-3.1-8b", 0.01, 0.03),
        # Both are in the fit of serving: these are errors of a fit.
        ("vllm_h200_decode_qwen3_30b_a3b.json", "qwen3-30b-a3b", 0.05, 0.10),
    ],
)
def test_decode_steps_that_vllm_was_measured_at(
    file: str, model: str, median: float, worst: float
) -> None:
    errors = []
    for point in json.loads((DATA / file).read_text()):
        batch = BatchConfig(sequences=point["batch"], context=point["context_mean"])
        graph = predict_graph(model_spec(model), H200, batch)
        step = graph.totals["step"]
        assert step.lo <= point["step_ms"] * 1e6 <= step.hi
        errors.append(abs(step.value / 1e6 / point["step_ms"] - 1))
    assert sorted(errors)[len(errors) // 2] < median
    assert max(errors) < worst


def test_a_step_is_the_iteration_of_a_deployment() -> None:
    """The equations behind TPOT give the same time for the same sequences and context."""
    batch = BatchConfig(sequences=24, context=2999, tensor=2)
    for name in ("llama-3.1-8b", "deepseek-v2", "gpt-oss-20b", "qwen3.5-27b"):
        model = model_spec(name)
        given, _ = evaluation.inputs(model, H200, batch, plan_step(model, batch))
        own = {n: v for n, v in given.items() if not n.startswith("serving.step.")}
        load = {"serving.decoding": 24.0, "serving.context": 3000.0, "serving.prompt": 1.0}
        found = registry().resolve("serving.decode.time", given=own | load, intervals=False)
        step = predict_graph(model, H200, batch).totals["step"].value
        assert step == pytest.approx(found.require_value() * 1e9, rel=1e-9)


def test_steps_without_graphs_wait_for_the_host() -> None:
    """vLLM 0.24 with enforce_eager: 13.9, 12.8, 13.4 and 16.1 ms at batch 1, 8, 64 and 256."""
    for batch, measured in ((1, 13.9), (8, 12.8), (64, 13.4), (256, 16.1)):
        graph = predict_graph(
            model_spec("llama-3.1-8b"),
            H200,
            BatchConfig(sequences=batch, context=208, cuda_graphs=False),
        )
        step = graph.totals["step"]
        assert step.lo <= measured * 1e6 <= step.hi
        assert abs(step_ms(graph) / measured - 1) < 0.15
        assert any(node.bound == "launch" and node.stream == -1 for node in graph)


def summed(graph: Graph) -> tuple[float, float]:
    nodes = [node for node in graph if node.name != "host.launch"]
    return math.fsum(n.expected_ns for n in nodes), math.fsum(n.floor_ns for n in nodes)


KINDS = (
    "deepseek-v3", "falcon-7b", "gemma-3-4b", "gpt2", "gpt-oss-20b", "llama-4-scout", "mixtral-8x7b",
    "qwen3.5-35b-a3b", "deepseek-v3.2", "llama-3.1-8b",
)  # fmt: skip
"""A model of each kind: MLA, one norm, windows, no RoPE, sinks, interleaved experts, hybrids."""


@pytest.mark.parametrize(
    "name",
    [*KINDS, *(pytest.param(n, marks=pytest.mark.slow) for n in models.names() if n not in KINDS)],
)
def test_nodes_add_up_to_the_step(name: str) -> None:
    for batch in (
        BatchConfig(sequences=3, context=5000),
        BatchConfig(
            sequences=16,
            context=700,
            prefill_tokens=512,
            prompt=2048,
            tensor=4,
            expert=2,
            pipeline=2,
        ),
        BatchConfig(sequences=0, prefill_tokens=1000, weight_dtype="fp8", kv_dtype="fp8"),
    ):
        graph = predict_graph(model_spec(name), H200, batch)
        time, floor = summed(graph)
        assert time == pytest.approx(graph.totals["step"].value, rel=1e-9)
        assert floor == pytest.approx(graph.totals["floor"].value, rel=1e-9)
        assert len({node.name for node in graph}) == len(graph)
        assert {node.bound for node in graph} <= {"memory", "compute", "launch", "network", "host"}
        assert all(is_operation(node.operation) for node in graph)
        assert all(node.equations for node in graph if node.expected_ns)
        used = {name for node in graph for name in node.equations}
        assert used <= set(registry().variables)
        for node in graph:
            assert node.floor_ns <= node.lo_ns <= node.expected_ns * (1 + 1e-12)
            assert node.expected_ns <= node.hi_ns * (1 + 1e-12)


def test_the_floor_is_that_of_the_bytes_and_flops() -> None:
    """Llama-3-8B in bf16: every weight but the embedding's is read once, 15.0 GB."""
    graph = predict_graph(model_spec("llama-3.1-8b"), H200, BatchConfig(sequences=1, context=127))
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    weights = 2 * (32 * layer + 4096 * 128256)
    keys = 32 * 128 * 2 * 1024 * 2
    assert graph.totals["floor"].value == pytest.approx((weights + keys) / 4800, rel=1e-4)
    products = math.fsum(node.flops for node in graph if "proj" in node.name)
    assert products == pytest.approx(2 * 32 * layer, rel=1e-12)
    assert graph.of("qkv_proj")[3].name == "layers.3.qkv_proj"


def test_a_step_of_prompts_and_of_both() -> None:
    model = model_spec("llama-3.1-8b")
    alone = predict_graph(model, H200, BatchConfig(sequences=0, prefill_tokens=2048))
    both = predict_graph(model, H200, BatchConfig(sequences=32, context=500, prefill_tokens=2048))
    assert {node.phase for node in alone} == {"prefill"}
    assert {node.phase for node in both} == {"mixed"}
    assert both.totals["step"].value > alone.totals["step"].value
    assert "tokens_per_second" in alone.missing
    assert both.totals["ttft"].value >= both.totals["step"].value


def test_speculation_reads_the_keys_once() -> None:
    model = model_spec("llama-3.1-8b")
    plain = predict_graph(model, H200, BatchConfig(sequences=8, context=8000))
    drafted = BatchConfig(sequences=8, context=8000, speculative_tokens=3)
    graph = predict_graph(model, H200, drafted)
    assert "tokens_per_second" in graph.missing
    assert step_ms(graph) < 1.3 * step_ms(plain)
    read, before = (sum(n.bytes_read for n in g.of("attention")) for g in (graph, plain))
    assert read == pytest.approx(before, rel=0.01)
    flops, fewer = (sum(n.flops for n in g.of("attention")) for g in (graph, plain))
    assert flops == pytest.approx(4 * fewer)
    known = predict_graph(model, H200, replace(drafted, acceptance=0.5))
    # 1 + 1/2 + 1/4 + 1/8 tokens a step.
    rate = known.totals["tokens_per_second"].value
    assert rate == pytest.approx(8 * 1.875 / (step_ms(known) / 1e3), rel=1e-6)


def test_context_parallel_ranks_share_the_keys() -> None:
    model = model_spec("llama-3.1-8b")
    alone = predict_graph(model, H200, BatchConfig(context=100_000))
    split = predict_graph(model, H200, BatchConfig(context=100_000, context_parallel=4))
    read, before = (sum(n.bytes_read for n in g.of("attention")) for g in (split, alone))
    assert read == pytest.approx(before / 4, rel=0.01)
    assert len(split.of("all_reduce")) == 32
    assert summed(split)[0] == pytest.approx(split.totals["step"].value, rel=1e-9)
    assert step_ms(split) < step_ms(alone)
    cost, single = (g.totals["dollars_per_token"].value for g in (split, alone))
    assert cost == pytest.approx(4 * single * step_ms(split) / step_ms(alone))
    assert "ttft" in split.missing


def test_what_formats_run_as() -> None:
    model = model_spec("llama-3.1-8b")
    for gpu, is_native in (("h200", True), ("a100_sxm", False)):
        graph = predict_graph(model, hardware_spec(gpu), BatchConfig(weight_dtype="fp8"))
        noted = any("multiplied in 16 bits" in text for text in graph.degradations)
        assert noted is not is_native
    q4 = predict_graph(model, H200, BatchConfig(weight_dtype="q4_1"))
    read = sum(node.bytes_read for node in q4.of("gate_up_proj"))
    assert read == pytest.approx(32 * 2 * 4096 * 14336 * 20 / 32, rel=0.01)


def test_what_does_not_fit_is_said() -> None:
    graph = predict_graph(model_spec("llama-3.1-70b"), hardware_spec("l4"), BatchConfig())
    assert any("does not fit" in text for text in graph.degradations)


def test_names_of_hardware_and_models() -> None:
    assert hardware_spec("accelerators/h200_sxm").name == "h200_sxm"
    assert hardware_spec("H200 SXM").name == hardware_spec("h200").name == "h200_sxm"
    with pytest.raises(AssayError, match=r"h200_sx") as caught:
        hardware_spec("h200_sx")
    assert "h200_sxm" in str(caught.value.hint)
    with pytest.raises(InputError, match="systolic"):
        hardware_spec("trainium2")
    assert model_spec("llama-3-8b-shape").architecture["hidden"] == 4096
    own = model_spec("synthetic")
    assert (own.weight_dtype, own.head_dtype) == ("f32", "f32")
    assert model_spec("meta-llama/Llama-3.1-8B-Instruct").name == "llama-3.1-8b"
    with pytest.raises(AssayError, match="unknown model"):
        model_spec("lama")


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (BatchConfig(sequences=0), "empty step"),
        (BatchConfig(sequences=-1), "sequences"),
        (BatchConfig(sequences=2, context=(1, 2, 3)), "one length for each"),
        (BatchConfig(context_parallel=2, prefill_tokens=9), "context_parallel"),
        (BatchConfig(engine="tgi"), "engine"),
        (BatchConfig(weight_dtype="q9"), "weight format"),
        (BatchConfig(kv_dtype="q9"), "KV-cache format"),
        (BatchConfig(expert=2), "expert"),
    ],
)
def test_impossible_batches_are_named(batch: BatchConfig, message: str) -> None:
    with pytest.raises(AssayError, match=message):
        predict_graph(model_spec("llama-3.1-8b"), H200, batch)


def test_a_calibration_changes_the_catalogs_values(tmp_path: Path) -> None:
    ceiling = Ceiling(2.4e12, 2.3e12, 2.5e12, "byte/s", 5, {"operation": "read"})
    machine = {"fingerprint": "0" * 16, "device_description": "NVIDIA H200", "processor": "x86"}
    given = {"gpu.memory.bandwidth": 2.4e12}
    found = Calibration(
        "cuda:0", machine, "2026-11-16", 20.0, {"read": ceiling}, given, "h200_sxm"
    )  # fmt: skip
    slow = hardware_spec(save(found, tmp_path / "here.json"))
    assert slow.ceilings["read"].value == 2.4e12
    model = model_spec("llama-3.1-8b")
    floors = [predict_graph(model, one).totals["floor"].value for one in (slow, H200)]
    assert floors[0] == pytest.approx(2 * floors[1], rel=1e-6)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="no calibration"):
        hardware_spec(tmp_path / "other.json")


def test_it_is_exported() -> None:
    assert assay.predict_graph is predict_graph
