"""The operations of Assay's own engine: what its layers fuse, by device and tokens of the step.

As `assay.engine.models.layers` queues them and `assay.observe.capture` names them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assay.errors import InputError
from assay.planner.operations import Load, Operation
from assay.planner.specs import LayerSpec, ModelSpec

FUSED_ROWS: Final = 8
"""Tokens up to which CUDA linear layers run as GEMV or small-M GEMM, with norm and activation fused;
beyond, cuBLASLt, with kernels of their own for both."""


def own_layer(model: ModelSpec, layer: LayerSpec, load: Load) -> list[Operation]:
    """A layer as the engine runs it."""
    if layer.mixer != "attention":
        raise InputError(
            f"{model.name}: expected layers of attention, got {layer.mixer}",
            "other layers of the engine of Assay are not predicted yet; --engine vllm predicts them",
        )
    mlp = _experts if layer.mlp == "moe" else _dense
    return [*_attention(model, layer, load), *mlp(model, load)]


def _attention(model: ModelSpec, layer: LayerSpec, load: Load) -> list[Operation]:
    shapes = model.architecture
    hidden, heads, width = shapes["hidden"], shapes["heads"], shapes["head_size"]
    keys, values = shapes["kv_heads"] * width, shapes["kv_heads"] * shapes["value_size"]
    first, _ = _norms(model, load)
    reach = "window" if layer.windowed else "full"
    written = [
        *(["qk_norm"] if shapes["norm.heads"] else []),
        *(["rope"] if model.has_rope else []),
        "kv_cache_write",
    ]
    attention = ("decode_" + reach, "prompt_" + reach)
    outputs = heads * shapes["value_size"]
    moved = 2 * (heads * width + keys) + 2 * (keys + values)
    fuses_cache = _fuses_cache(model, load)
    operations = [
        *_pass("input_norm", first, 3 * hidden),
        Operation(_joined("input_norm", first, "qkv_proj"), ("qkv",), depth=hidden),
    ]
    if not fuses_cache:
        operations.append(Operation("+".join(written), ("passes",), weight=moved, written=0.5))
    name = "+".join([*written, "attention"]) if fuses_cache else "attention"
    return [
        *operations,
        Operation(name, attention, outputs=outputs),
        Operation("o_proj", ("out",), depth=outputs),
    ]


def _dense(model: ModelSpec, load: Load) -> list[Operation]:
    hidden, gate = model.architecture["hidden"], model.architecture["ffn"] / load.tensor
    _, last = _norms(model, load)
    dense = [
        *_pass("post_attention_norm", last, 3 * hidden),
        Operation(_gate_name(load, last), ("ffn_up",), depth=hidden),
    ]
    if not _fuses(load):
        dense.append(Operation("activation", ("passes",), weight=3 * gate, written=1 / 3))
    dense.append(Operation("down_proj", ("ffn_down",), depth=gate))
    return dense


def _experts(model: ModelSpec, load: Load) -> list[Operation]:
    """Routing, and the grouped GEMMs of `assay.engine.models.experts`."""
    shapes = model.architecture
    hidden, experts, chosen = shapes["hidden"], shapes["experts"], shapes["experts_per_token"]
    if shapes["shared_experts"]:
        raise InputError(
            f"{model.name}: expected a mixture without shared experts, got "
            f"{shapes['shared_experts']:.0f}",
            "they are not predicted for the engine of Assay yet; --engine vllm predicts them",
        )
    up = Operation("experts_gate_up+experts_activation", ("experts_up",), depth=hidden)
    down = Operation("experts_down", ("experts_down",), depth=shapes["expert_ffn"])
    combine = Operation("expert_combine", ("routing",), weight=(chosen + 1) * hidden, written=0.2)
    if not load.on_gpu:
        return [
            *_pass("post_attention_norm", False, 3 * hidden),
            Operation("router", ("routing",), weight=hidden + experts, written=0.1),
            Operation("router_topk", ("routing",), weight=experts, written=0.1),
            up, down, combine,
        ]  # fmt: skip
    name = f"{down.name}+{combine.name}"
    router = Operation(
        "post_attention_norm+router+router_topk", ("routing",), weight=2 * hidden, written=0.5
    )
    fused = [replace(down, name=name)]
    return [router, up, *fused, *([] if combines(load, chosen) else [replace(combine, name=name)])]


def combines(load: Load, chosen: float) -> bool:
    """Whether a GPU's down projection sums the experts of a token: each assignment is a GEMV then."""
    from assay.runtime.capabilities import BY_KIND

    return load.tokens * chosen <= BY_KIND["cuda"].grouped_gemv_max_assignments


def _fuses(load: Load) -> bool:
    """Whether linear layers compute their norm and activation too; on a CPU they always do."""
    return not load.on_gpu or load.tokens <= FUSED_ROWS


def _norms(model: ModelSpec, load: Load) -> tuple[bool, bool]:
    """Whether the norms before attention and MLP are fused; LayerNorm is an operation of its own."""
    fused = _fuses(load) and model.architecture["norm.vectors"] < 2
    return fused, fused


def _pass(name: str, fused: bool, weight: float) -> list[Operation]:
    return [] if fused else [Operation(name, ("passes",), weight=weight, written=1 / 3)]


def _joined(norm: str, fused: bool, name: str) -> str:
    return f"{norm}+{name}" if fused else name


def _gate_name(load: Load, fused: bool) -> str:
    name = _joined("post_attention_norm", fused, "gate_up_proj")
    return f"{name}+activation" if _fuses(load) else name


def _fuses_cache(model: ModelSpec, load: Load) -> bool:
    """Whether decode attention rotates queries and keys and writes the cache too."""
    from assay.runtime.capabilities import BY_KIND

    limit = BY_KIND["cuda" if load.on_gpu else "cpu"].fused_decode_attention_max_kv_heads
    # The fused kernel writes no scales of tokens.
    return (
        load.kv_format != "int8"
        and not load.prefill_tokens
        and load.tokens * model.architecture["kv_heads"] <= limit
    )


def own_first(model: ModelSpec) -> list[Operation]:
    """What runs before the first layer: rows of tokens, learned positions, and their sum."""
    hidden = model.architecture["hidden"]
    count = 3 if model.architecture["positions"] else 1
    return [Operation("embedding", ("outer",), weight=2 * hidden, written=0.5)] * count


def own_last(model: ModelSpec, load: Load) -> list[Operation]:
    """What runs after the last layer."""
    shapes = model.architecture
    hidden = shapes["hidden"]
    fused = _norms(model, load)[0]
    norms = [] if fused else [Operation("final_norm", ("outer",), weight=2 * hidden, written=0.5)]
    return [
        *norms,
        Operation(_joined("final_norm", fused, "lm_head"), ("logits",), depth=hidden),
        Operation("sampling", ("outer",), 2, weight=2 * shapes["vocabulary"], written=0.0),
    ]
