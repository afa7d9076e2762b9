"""No node and no step is below its floor: random models, batches, formats and GPUs.

The floors of the whole step are computed here from shapes and data sheets, not by the stack.
"""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings, strategies as st

from assay.catalog import accelerators, models
from assay.planner import BatchConfig, HardwareSpec, hardware_spec, predict_graph
from assay.planner.sources import from_model

GPUS = ("a100_sxm", "b200_sxm", "h100_sxm", "h200_sxm", "l4", "mi300x", "rtx_4090", "t4")
ROUNDING = 1 - 1e-9


@cache
def hardware(name: str) -> HardwareSpec:
    return hardware_spec(name)


@cache
def bandwidth(name: str) -> float:
    """Bytes per second of the data sheet."""
    stated = accelerators.find(name).given
    if "gpu.memory.bandwidth" in stated:
        return stated["gpu.memory.bandwidth"]
    parts = ("hbm.stacks", "hbm.channels_per_stack", "hbm.pins_per_channel", "hbm.pin_rate")
    product = 1.0
    for part in parts:
        product *= stated[part]
    return product


def sized(draw: st.DrawFn, low: int, high: int, step: int = 1) -> int:
    return step * draw(st.integers(low, high))


@st.composite
def configurations(draw: st.DrawFn) -> tuple[dict[str, int], BatchConfig, str]:
    kv_heads = 2 ** draw(st.integers(0, 3))
    config = {
        "num_hidden_layers": sized(draw, 1, 12), "hidden_size": sized(draw, 2, 64, 128),
        "num_attention_heads": kv_heads * 2 ** draw(st.integers(0, 3)),
        "num_key_value_heads": kv_heads, "head_dim": draw(st.sampled_from((64, 128))),
        "intermediate_size": sized(draw, 2, 200, 64), "vocab_size": sized(draw, 1, 400, 512),
    }  # fmt: skip
    if draw(st.booleans()):
        experts = 2 ** draw(st.integers(2, 7))
        config |= {
            "num_local_experts": experts,
            "num_experts_per_tok": draw(st.integers(1, min(8, experts))),
            "moe_intermediate_size": sized(draw, 1, 40, 64),
        }
    prefill = draw(st.sampled_from((0, 0, 1, 100, 4096)))
    batch = BatchConfig(
        sequences=draw(st.integers(0 if prefill else 1, 600)),
        context=draw(st.integers(0, 50_000)),
        prefill_tokens=prefill,
        speculative_tokens=draw(st.sampled_from((0, 0, 3))),
        weight_dtype=draw(st.sampled_from(("bf16", "fp8", "int4", "q8_0", "nvfp4"))),
        kv_dtype=draw(st.sampled_from(("bf16", "fp8"))),
        cuda_graphs=draw(st.booleans()),
    )
    return config, batch, draw(st.sampled_from(GPUS))


STORED = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5, "q8_0": 1.0, "nvfp4": 0.5}


@settings(max_examples=60, deadline=None)
@given(configurations())
def test_nothing_is_faster_than_its_floor(drawn: tuple[dict[str, int], BatchConfig, str]) -> None:
    config, batch, gpu = drawn
    graph = predict_graph(from_model(models.from_config(config)), hardware(gpu), batch)
    for node in graph:
        assert node.expected_ns >= node.floor_ns * ROUNDING, node
        assert node.lo_ns >= node.floor_ns * ROUNDING, node
        assert node.hi_ns >= node.expected_ns * ROUNDING, node
        assert min(node.bytes_read, node.bytes_written, node.flops) >= 0, node
    step, floor = graph.totals["step"], graph.totals["floor"]
    assert floor.value <= step.lo <= step.value <= step.hi
    assert floor.value >= least_ns(config, batch, gpu) * ROUNDING


def least_ns(config: dict[str, int], batch: BatchConfig, gpu: str) -> float:
    """Time to read the projections' weights and the keys and values once."""
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    heads, kv_heads, width = (
        config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    # Four-bit mixtures keep their projections in 16 bits: more than is counted here.
    weights = layers * hidden * width * (2 * heads + 2 * kv_heads) * STORED[batch.weight_dtype]
    element = 2 if batch.kv_dtype == "bf16" else 1
    context = batch.context if isinstance(batch.context, int) else 0
    cached = layers * 2 * kv_heads * width * batch.sequences * context * element
    return (weights + cached) / bandwidth(gpu) * 1e9
