"""Phi-3, Phi-3.5 and Phi-4: Llama with fused matrices, and RoPE of long contexts (longrope)."""

from __future__ import annotations

from dataclasses import replace

from assay.engine.architectures.decoder import Decoder, Linear
from assay.engine.architectures.llama_layers import (
    MODEL,
    attention,
    decoder,
    fused_mlp,
    pre_norm_block,
    rotary,
)
from assay.engine.architectures.schema import Architecture, Config, llama_schema, uniform_windows


def build(config: Config) -> Decoder:
    """Queries, keys and values are one matrix, as are gate and up."""
    rope, blocks = rotary(config), []
    for layer, window in enumerate(uniform_windows(config)):
        plain = attention(config, layer, rope, window=window)
        qkv = plain.qkv
        fused = Linear((f"{MODEL}.layers.{layer}.self_attn.qkv_proj",), (qkv.outputs,), qkv.inputs)
        blocks.append(
            pre_norm_block(config, layer, replace(plain, qkv=fused), fused_mlp(config, layer))
        )
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="Phi-3, Phi-3.5, Phi-4, Phi-4-mini",
    schema=llama_schema(sliding_window=None, partial_rotary_factor=1.0),
    decoder=build,
    small={"sliding_window": None, "partial_rotary_factor": 1.0},
    gguf="phi3",
)
