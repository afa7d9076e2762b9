"""Layers of the Llama family, whose names most architectures share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from assay.engine.architectures.decoder import (
    Attention,
    Block,
    Decoder,
    Experts,
    LatentAttention,
    Linear,
    Mlp,
    Norm,
    Rotary,
)
from assay.engine.architectures.schema import GATED, Config, activation

MODEL = "model"
LM_HEAD = "lm_head"


def rotary(config: Config, *, interleaved: bool = False) -> Rotary:
    """RoPE as the configuration describes it."""
    share = config.get("partial_rotary_factor") or 1.0
    return Rotary(
        # transformers rounds down; the kernels rotate whole pairs.
        int(config["head_dim"] * share) // 2 * 2,
        config["rope_theta"],
        config["rope_scaling"],
        interleaved,
    )


def attention(
    config: Config,
    layer: int,
    rope: Rotary | None,
    *,
    bias: bool = False,
    output_bias: bool = False,
    window: int = 0,
    norms: str | None = None,
    **options: Any,
) -> Attention:
    """Separate query, key and value matrices; `norms` is "head" or "row" for QK norm."""
    base = f"{MODEL}.layers.{layer}.self_attn"
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, hidden = config["head_dim"], config["hidden_size"]
    names = tuple(f"{base}.{name}_proj" for name in ("q", "k", "v"))
    rows = (heads * size, kv_heads * size, kv_heads * size)
    widths = {"head": (size, size), "row": rows[:2]}.get(norms or "", (0, 0))
    return Attention(
        qkv=Linear(names, rows, hidden, bias),
        output=Linear((f"{base}.o_proj",), (hidden,), heads * size, output_bias),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=size,
        rotary=rope,
        window=window,
        query_norm=Norm(f"{base}.q_norm", widths[0]) if norms else None,
        key_norm=Norm(f"{base}.k_norm", widths[1]) if norms else None,
        **options,
    )


def mlp(config: Config, layer: int, *, bias: bool = False, name: str = "mlp") -> Mlp:
    """Gate, up and down."""
    base = f"{MODEL}.layers.{layer}.{name}"
    return gated_mlp(config, base, config["intermediate_size"], bias=bias)


def gated_mlp(config: Config, base: str, inner: int, *, bias: bool = False) -> Mlp:
    """Gate, up and down of this width, under this name."""
    hidden = config["hidden_size"]
    return Mlp(
        up=Linear((f"{base}.gate_proj", f"{base}.up_proj"), (inner, inner), hidden, bias),
        down=Linear((f"{base}.down_proj",), (hidden,), inner, bias),
        activation=activation(config, _activation_key(config), GATED),
    )


def fused_mlp(config: Config, layer: int) -> Mlp:
    """Gate and up stored as one matrix, gates first."""
    base = f"{MODEL}.layers.{layer}.mlp"
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    return Mlp(
        up=Linear((f"{base}.gate_up_proj",), (2 * inner,), hidden),
        down=Linear((f"{base}.down_proj",), (hidden,), inner),
        activation=activation(config, _activation_key(config), GATED),
    )


def _activation_key(config: Config) -> str:
    # Gemma's key comes first where a file has both.
    return "hidden_activation" if config.get("hidden_activation") else "hidden_act"


def norm(config: Config, layer: int, name: str, **options: Any) -> Norm:
    """A norm of the residual stream."""
    return Norm(f"{MODEL}.layers.{layer}.{name}", config["hidden_size"], **options)


def pre_norm_block(
    config: Config, layer: int, attention: Attention | LatentAttention, mlp: Any
) -> Block:
    """Attention and MLP, each normed before."""
    return Block(
        attention=attention,
        mlp=mlp,
        attention_norm=norm(config, layer, "input_layernorm"),
        mlp_norm=norm(config, layer, "post_attention_layernorm"),
    )


def pre_norm_blocks(
    config: Config,
    feed_forward: Callable[[Config, int], Mlp | Experts],
    windows: Sequence[int] | None = None,
    **options: Any,
) -> list[Block]:
    """Blocks that differ in their windows only; `options` are those of `attention`."""
    rope = rotary(config)
    return [
        pre_norm_block(
            config,
            layer,
            attention(config, layer, rope, window=window, **options),
            feed_forward(config, layer),
        )
        for layer, window in enumerate(windows or [0] * config["num_hidden_layers"])
    ]


def decoder(config: Config, blocks: list[Block], **options: Any) -> Decoder:
    """The model around the blocks."""
    hidden = config["hidden_size"]
    made = Decoder(
        vocabulary=config["vocab_size"],
        hidden=hidden,
        context=config["max_position_embeddings"],
        epsilon=config.get("rms_norm_eps", 0.0),
        embedding=f"{MODEL}.embed_tokens",
        blocks=tuple(blocks),
        norm=Norm(f"{MODEL}.norm", hidden),
        head=None if config["tie_word_embeddings"] else LM_HEAD,
    )
    return replace(made, **options)
