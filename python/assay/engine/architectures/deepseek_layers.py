"""Layers that DeepSeek V2 and V3 share: latent attention, and shared experts beside routed ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from assay.engine.architectures.decoder import (
    Decoder,
    Experts,
    LatentAttention,
    Linear,
    Mlp,
    Norm,
    Rotary,
    Routing,
)
from assay.engine.architectures.expert_layers import experts
from assay.engine.architectures.llama_layers import (
    MODEL,
    decoder,
    gated_mlp,
    mlp,
    pre_norm_block,
    rotary,
)
from assay.engine.architectures.schema import LLAMA_DIMENSIONS, Config
from assay.errors import UnsupportedError

DIMENSIONS: Final = (
    *LLAMA_DIMENSIONS,
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
)
LATENT_EPSILON: Final = 1e-6
"""Of the norms of latents, whatever `rms_norm_eps` is."""

SMALL: Final[dict[str, Any]] = {
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "head_dim": 32,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "attention_bias": False,
}


def latent_attention(config: Config, layer: int, rope: Rotary) -> LatentAttention:
    """Queries of two parts, with a low-rank projection before them where there is `q_lora_rank`."""
    base = f"{MODEL}.layers.{layer}.self_attn"
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    rank, query_rank = config["kv_lora_rank"], config["q_lora_rank"]
    nope, rotated = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    value, bias = config["v_head_dim"], config["attention_bias"]
    size = nope + rotated
    query_name = "q_b_proj" if query_rank else "q_proj"
    return LatentAttention(
        query_down=Linear((f"{base}.q_a_proj",), (query_rank,), hidden, bias)
        if query_rank
        else None,
        query_norm=Norm(f"{base}.q_a_layernorm", query_rank, epsilon=LATENT_EPSILON)
        if query_rank
        else None,
        query=Linear((f"{base}.{query_name}",), (heads * size,), query_rank or hidden),
        kv_down=Linear((f"{base}.kv_a_proj_with_mqa",), (rank + rotated,), hidden, bias),
        kv_norm=Norm(f"{base}.kv_a_layernorm", rank, epsilon=LATENT_EPSILON),
        kv_up=Linear((f"{base}.kv_b_proj",), (heads * (nope + value),), rank),
        output=Linear((f"{base}.o_proj",), (hidden,), heads * value, bias),
        heads=heads,
        rank=rank,
        nope_dim=nope,
        rope_dim=rotated,
        value_dim=value,
        rotary=rope,
        scale=_scale(config, size),
    )


def _scale(config: Config, size: int) -> float:
    """One over the root of a head's dimensions, times YaRN's factor of scores."""
    scaling = config["rope_scaling"] or {}
    return float(size**-0.5 * scaling.get("score_factor", 1.0))


def check_choice(config: Config, key: str, known: tuple[Any, ...]) -> Any:
    """The value of a key that says how experts are chosen, if it is one of these."""
    value = config[key]
    if value not in known:
        raise UnsupportedError(
            f"config.json: expected {key} {' or '.join(map(str, known))}, got {value!r:.80}",
            "without it a token's experts would be others",
        )
    return value


def build(config: Config, routing: Routing, *, interleaved: bool) -> Decoder:
    """The first layers have a dense MLP, the others experts; the routing's bias is named by layer."""
    rope = rotary(config, interleaved=interleaved)
    blocks = [
        pre_norm_block(
            config, layer, latent_attention(config, layer, rope), _mlp(config, layer, routing)
        )
        for layer in range(config["num_hidden_layers"])
    ]
    return decoder(config, blocks)


def _mlp(config: Config, layer: int, routing: Routing) -> Mlp | Experts:
    if layer < config["first_k_dense_replace"]:
        return mlp(config, layer)
    base, inner = f"{MODEL}.layers.{layer}.mlp", config["moe_intermediate_size"]
    if routing.bias is not None:
        routing = replace(routing, bias=f"{base}.gate.{routing.bias}")
    shared = gated_mlp(config, f"{base}.shared_experts", inner * config["n_shared_experts"])
    return experts(config, routing, base, inner, shared=shared)
