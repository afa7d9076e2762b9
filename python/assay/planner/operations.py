"""What an engine runs for a layer and around the layers: operations, their equation and kernels.

Names are those of `assay.observe.operations`. One equation may cover several operations (passes,
routing, state, outside of layers): they share its time by `weight`, see `assay.planner.layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.planner.specs import LayerSpec, ModelSpec

SHARED: Final = ("passes", "routing", "state", "outer")
"""Equations that several operations share."""

Shapes = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a layer or of the step, and the equations that give its work."""

    name: str
    items: tuple[str, ...]
    """Equations `serving.step.operation.ITEM`, whose work is added."""
    kernels: int = 1
    """Kernels on the device, workspaces and split-K reductions among them."""
    launches: int = 1
    """Calls of the model's code that launch them."""
    scale: float = 1.0
    """Of the equation's work: a layer of another width than the equation's counts by its width."""
    is_linear: bool = False
    """Of a linear-attention layer: the equation of attention's products, by the weights of both."""
    weight: float = 0.0
    """Elements that it moves for a token, where it shares its equation."""
    written: float = 0.0
    """Share of the bytes that it writes, where the equation has no product."""
    outputs: float = 0.0
    """Elements of 16 bits that it writes for a token, where that is known."""
    depth: float = 0.0
    """Length of the sums of a product: its outputs are FLOPs over twice the depth."""


@dataclass(frozen=True, slots=True)
class Load:
    """What decides which kernels run: tokens of the step, and ranks."""

    tokens: float
    tensor: int
    expert: int
    prefill_tokens: int = 0
    pipeline: int = 1
    context_parallel: int = 1
    on_gpu: bool = True
    kv_format: str = "bf16"
    """Format of the KV cache."""


def vllm_layer(model: ModelSpec, layer: LayerSpec, load: Load) -> list[Operation]:
    """A layer as vLLM runs it: fused QKV, add and norm, SiLU and product; FlashAttention."""
    mixers = {"attention": _attention, "mla": _latent, "linear": _linear}
    mlp = _moe if layer.mlp == "moe" else _dense
    return [*mixers[layer.mixer](model, layer, load), *mlp(model, load)]


def _norm(model: ModelSpec, name: str) -> list[Operation]:
    shapes = model.architecture
    norms = shapes["norm.layer_count"]
    kernels = int(norms // 2) if norms >= 2 else 1
    if name == "post_attention_norm" and norms < 2:
        return []
    # Models with four norms have one after attention and one after the MLP as well.
    return [
        Operation(name, ("passes",), kernels, kernels, weight=3 * shapes["hidden"], written=1 / 3)
    ]


def _summed(name: str, ranks: int) -> list[Operation]:
    return [Operation("all_reduce", (name,), written=0.5)] if ranks > 1 else []


def _attention(model: ModelSpec, layer: LayerSpec, load: Load) -> list[Operation]:
    shapes = model.architecture
    heads, width = shapes["heads"], shapes["head_size"]
    keys = shapes["kv_heads"] * width
    values = shapes["kv_heads"] * shapes["value_size"]
    operations = _norm(model, "input_norm")
    operations.append(Operation("qkv_proj", ("qkv",), depth=shapes["hidden"]))
    for name, runs in (("qk_norm", shapes["norm.heads"]), ("rope", model.has_rope)):
        if runs:
            weight = 2 * (heads * width + keys)
            operations.append(Operation(name, ("passes",), weight=weight, written=0.5))
    return [
        *operations,
        Operation("kv_cache_write", ("passes",), weight=2 * (keys + values), written=0.5),
        _kernel(model, layer, load),
        *_summed("context_sum", load.context_parallel),
        _output(shapes, load),
        *_summed("attention_sum", load.tensor),
    ]


def _kernel(model: ModelSpec, layer: LayerSpec, load: Load) -> Operation:
    """FlashAttention, with the kernel that schedules or combines its splits."""
    reach = "window" if layer.windowed else "full"
    outputs = model.architecture["heads"] * model.architecture["value_size"] / load.tensor
    return Operation("attention", (f"decode_{reach}", f"prompt_{reach}"), 2, outputs=outputs)


def _output(shapes: Shapes, load: Load) -> Operation:
    depth = shapes["heads"] * shapes["value_size"] / load.tensor
    return Operation("o_proj", ("out",), 2 if load.tokens <= 16 else 1, depth=depth)


def _latent(model: ModelSpec, layer: LayerSpec, load: Load) -> list[Operation]:
    shapes = model.architecture
    latent, query = shapes["latent.width"], shapes["latent.query_width"]
    rotary = shapes["latent.rotary_width"]
    first = "q_a_proj+kv_a_proj" if query else "q_b_proj+kv_a_proj"
    operations = _norm(model, "input_norm")
    operations.append(Operation(first, ("qkv",), depth=shapes["hidden"]))
    if query:
        operations.append(Operation("q_a_norm", ("passes",), weight=2 * query, written=0.5))
        operations.append(Operation("q_b_proj", ("latent_query",), depth=query))
    return [
        *operations,
        Operation("kv_a_norm", ("passes",), weight=2 * latent, written=0.5),
        Operation("rope", ("passes",), weight=2 * rotary * (shapes["heads"] + 1), written=0.5),
        Operation("kv_cache_write", ("passes",), weight=2 * (latent + rotary), written=0.5),
        # The absorbed halves of the up projection, before and after attention.
        Operation("kv_b_proj", ("latent_values",), 2, depth=latent),
        _kernel(model, layer, load),
        *_summed("context_sum", load.context_parallel),
        _output(shapes, load),
        *_summed("attention_sum", load.tensor),
    ]


def _linear(model: ModelSpec, layer: LayerSpec, load: Load) -> list[Operation]:
    del layer
    shapes = model.architecture
    keys = shapes["linear.key_heads"] * shapes["linear.key_size"]
    values = shapes["linear.value_heads"] * shapes["linear.value_size"]
    states = shapes["linear.value_heads"] * shapes["linear.key_size"] * shapes["linear.value_size"]
    channels = 2 * keys + values
    return [
        *_norm(model, "input_norm"),
        Operation("ssm_in_proj", ("qkv",), is_linear=True, depth=shapes["hidden"]),
        Operation("ssm_conv", ("state",), weight=max(shapes["linear.convolution"], 1) * channels, written=0.5),
        Operation("ssm_scan", ("state",), weight=states, written=0.5),
        Operation("ssm_norm", ("state",), weight=2 * values, written=0.5),
        Operation("ssm_out_proj", ("out",), is_linear=True, depth=max(values / load.tensor, 1)),
        *_summed("attention_sum", load.tensor),
    ]  # fmt: skip


def _dense(model: ModelSpec, load: Load) -> list[Operation]:
    shapes = model.architecture
    if not shapes["ffn"]:
        return []
    width = shapes["ffn"] / load.tensor
    # Beside shared experts the stack's equation has their width.
    shared = shapes["shared_experts"] * shapes["expert_ffn"] if shapes["experts"] else 0.0
    scale = shapes["ffn"] / shared if shared else 1.0
    return [
        *_norm(model, "post_attention_norm"),
        Operation("gate_up_proj", ("ffn_up",), scale=scale, depth=shapes["hidden"]),
        Operation("activation", ("passes",), weight=3 * width, written=1 / 3),
        Operation("down_proj", ("ffn_down",), 2 if load.tokens <= 64 else 1, scale=scale, depth=width),
        *_summed("feed_forward_sum", load.tensor),
    ]  # fmt: skip


def _moe(model: ModelSpec, load: Load) -> list[Operation]:
    shapes = model.architecture
    hidden, chosen = shapes["hidden"], shapes["experts_per_token"]
    width = shapes["expert_ffn"] * load.expert / load.tensor
    operations = [
        *_norm(model, "post_attention_norm"),
        Operation("router", ("routing",), weight=hidden + shapes["experts"], written=0.1),
        Operation("router_topk", ("routing",), weight=shapes["experts"], written=0.1),
        Operation("expert_dispatch", ("routing",), weight=chosen * hidden, written=0.5),
        Operation("experts_gate_up", ("experts_up",), depth=hidden),
        Operation("experts_activation", ("routing",), weight=3 * chosen * width, written=1 / 3),
        Operation("experts_down", ("experts_down",), depth=max(width, 1)),
        Operation("expert_combine", ("routing",), 2, weight=(chosen + 1) * hidden, written=0.2),
    ]
    if shapes["shared_experts"]:
        own = shapes["shared_experts"] * shapes["expert_ffn"] / load.tensor
        operations += [
            Operation("shared_gate_up", ("ffn_up",), depth=hidden),
            Operation("shared_activation", ("routing",), weight=3 * own, written=1 / 3),
            Operation("shared_down", ("ffn_down",), depth=max(own, 1)),
        ]
    return [*operations, *_summed("feed_forward_sum", load.tensor)]


def before_layers(model: ModelSpec) -> list[Operation]:
    """What runs before the first layer."""
    hidden = model.architecture["hidden"]
    return [
        Operation("prepare_inputs", ("outer",), 10, 10, weight=0.0, written=0.5),
        Operation("embedding", ("outer",), weight=2 * hidden, written=0.5),
    ]


def after_layers(model: ModelSpec, load: Load) -> list[Operation]:
    """What runs after the last layer."""
    shapes = model.architecture
    hidden = shapes["hidden"]
    hops = [Operation("send_recv", ("send",), load.pipeline - 1, written=0.5)]
    return [
        *(hops if load.pipeline > 1 else []),
        Operation("final_norm", ("outer",), weight=2 * hidden, written=0.5),
        Operation("select_logits", ("outer",), weight=2 * hidden, written=0.5),
        Operation("lm_head", ("logits",), 2 if load.tokens <= 16 else 1, depth=hidden),
        Operation(
            "sampling", ("outer",), 8, 8, weight=7 * shapes["vocabulary"] / load.tensor, written=0.3
        ),
        Operation("collect_outputs", ("outer",), 3, 3, weight=0.0, written=0.5),
    ]
