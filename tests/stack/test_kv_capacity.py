"""KV-cache capacity as engines compute it, against what vLLM printed at its start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.catalog import engines, models
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading.configuration import validated
from assay.engine.models.model_shape import model_shape
from assay.engine.runner.kv_memory import KvMemory
from assay.model import Registry
from assay.runtime import Device
from assay.scenario import preset
from assay.stack import registry as whole_stack
from assay.validate.serving.predict import hardware

GIB = 2**30
ENGINE = json.loads(
    (Path(__file__).parents[1] / "data" / "vllm_h200_openloop_llama8b.json").read_text()
)["engine"]
CHOICES = {
    "serving.tensor": 1.0, "serving.pipeline": 1.0, "serving.expert": 1.0,
    "serving.attention_replicas": 1.0, "serving.compute_bits": 16.0, "serving.expert_bits": 16.0,
    "serving.weight_bytes": 2.0, "serving.expert_bytes": 2.0, "serving.kv_bytes": 2.0,
    "serving.prompt": 1024.0, "serving.output": 1024.0, "serving.concurrency": 64.0,
    "serving.static": 0.0, "serving.separate": 0.0, "serving.group_limit": 1000.0,
    "serving.prompt_budget": 8192.0, "serving.batch_limit": 1024.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def ask(
    registry: Registry, name: str, system: str, model: str, engine: str = "vllm", **changes: float
) -> float:
    values = {
        **hardware(system), **engines.given(engine, "inferencex"), **models.find(model).given,
        **CHOICES, **{f"serving.{key}": value for key, value in changes.items()},
    }  # fmt: skip
    found = registry.resolve(f"serving.{name}", given=values).value
    assert found is not None
    return found


def test_blocks_of_vllm_on_an_h200(registry: Registry) -> None:
    # vLLM 0.24, Llama-3-8B in bf16: 56,079 blocks of 16 tokens at a utilization of 0.9.
    assert (ENGINE["block_size"], ENGINE["gpu_memory_utilization"]) == (16, 0.9)
    blocks = ask(registry, "kv.blocks", "h200_sxm", "llama-3.1-8b")
    assert blocks == pytest.approx(ENGINE["num_gpu_blocks"], rel=0.002)
    capacity = ask(registry, "kv.capacity", "h200_sxm", "llama-3.1-8b")
    assert capacity == 16 * blocks
    assert ask(registry, "kv.max_concurrency", "h200_sxm", "llama-3.1-8b") == pytest.approx(
        capacity / 2048, rel=1e-4
    )


def test_tokens_of_vllm_from_the_memory_it_printed(registry: Registry) -> None:
    # github.com/vllm-project/vllm/issues/21348: Qwen3-235B-A22B on four H100, 8.11 GiB available
    # on each, "GPU KV cache size: 178,880 tokens".
    found = ask(
        registry, "kv.capacity", "h100_sxm", "qwen3-235b-a22b", tensor=4.0,
        cache_memory=8.11 * GIB,
    )  # fmt: skip
    assert found == pytest.approx(178_880, rel=0.013)
    # github.com/vllm-project/vllm/pull/12569: Llama 3.1 70B, 1381 blocks, "Maximum concurrency for
    # 2048 tokens per request: 10.79x"; a token takes 80 layers of 4096 bytes.
    memory = 1381 * 16 * 80 * 4096
    many = ask(
        registry, "kv.max_concurrency", "h100_sxm", "llama-3.1-70b", cache_memory=float(memory)
    )
    assert many == pytest.approx(10.79, abs=0.005)
    blocks = ask(registry, "kv.blocks", "h100_sxm", "llama-3.1-70b", cache_memory=float(memory))
    assert blocks == 1381


def test_engines_take_activations_from_different_shares(registry: Registry) -> None:
    weights = 2 * 8_030_261_248
    total = hardware("h200_sxm")["gpu.memory.capacity"]

    def left(engine: str, **changes: float) -> float:
        return ask(registry, "cache_memory", "h200_sxm", "llama-3.1-8b", engine, **changes)

    assert left("sglang") == pytest.approx(0.88 * total - weights)
    logits = 12 * 1024 * 128_256
    buffers = 450e6
    assert left("vllm") == pytest.approx(0.9 * total - weights - logits - buffers)
    assert left("trtllm") == pytest.approx(0.9 * (total - weights - logits - buffers))
    # A larger token budget: gate and up, their product, residual and three more of the hidden size.
    budget = 65536.0
    layer = budget * (3 * 14336 + 4 * 4096) * 2
    assert left("vllm", prompt_budget=budget) == pytest.approx(
        0.9 * total - weights - layer - buffers
    )


def test_a_last_block_is_not_shared(registry: Registry) -> None:
    for output, whole in ((1008.0, 2032), (1009.0, 2048)):
        many, total = (
            ask(registry, name, "h200_sxm", "llama-3.1-8b", output=output)
            for name in ("kv.max_concurrency", "cache_memory")
        )
        assert many == pytest.approx(total / (whole * 131_072), rel=1e-9)


def test_concurrency_beyond_the_cache_is_a_violation(registry: Registry) -> None:
    known = preset("llama3_8b_h200_serving").exact_inputs.given
    lengths = {"serving.prompt": 3900.0, "serving.output": 4000.0}
    for requests, status in ((64.0, "true"), (240.0, "false")):
        given = {**known, **lengths, "serving.concurrency": requests}
        found = registry.resolve("serving.throughput", given=given)
        verdicts = {verdict.name: verdict.status for verdict in found.constraints}
        assert verdicts["serving.fits_cache"] == status


@pytest.mark.parametrize(("kv_format", "element"), [("bf16", 2.0), ("f32", 4.0)])
def test_blocks_are_those_that_our_engine_allocates(
    registry: Registry, kv_format: str, element: float
) -> None:
    # The engine's own allocation: 10 blocks of 16 tokens of SmolLM2-135M's shape, on the CPU.
    config = models.find("smollm2-135m").config
    given = {"rms_norm_eps": 1e-5, "hidden_act": "silu", **config}
    complete, _ = validated("config.json", "llama", given)
    shape = model_shape(ARCHITECTURES["llama"].decoder(complete))
    memory = KvMemory(
        Device("cpu"), shape, blocks=10, block_tokens=16, format=kv_format, prefix_caching=False,
        owner=lambda: (),
    )  # fmt: skip
    changes = {"cache_memory": float(memory.memory.nbytes), "kv_bytes": element}
    assert ask(registry, "kv.blocks", "h200_sxm", "smollm2-135m", **changes) == 10
    capacity = ask(registry, "kv.capacity", "h200_sxm", "smollm2-135m", **changes)
    assert capacity == memory.capacity
    memory.free()
