"""Qwen3: Llama with QK norm: an RMSNorm of each query and key head before RoPE."""

from __future__ import annotations

from collections.abc import Callable

from assay.engine.architectures.decoder import Block, Decoder, Experts, Mlp
from assay.engine.architectures.llama_layers import decoder, mlp, pre_norm_blocks
from assay.engine.architectures.qwen2 import windows
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """QK norm of each head."""
    return decoder(config, blocks(config, mlp))


def blocks(config: Config, feed_forward: Callable[[Config, int], Mlp | Experts]) -> list[Block]:
    """Llama's blocks with QK norm."""
    bias = config["attention_bias"]
    return pre_norm_blocks(
        config, feed_forward, windows(config), bias=bias, output_bias=bias, norms="head"
    )


ARCHITECTURE = Architecture(
    models="Qwen3",
    schema=llama_schema("head_dim", attention_bias=False, use_sliding_window=False),
    decoder=build,
    small={"use_sliding_window": False, "attention_bias": False},
    gguf="qwen3",
)
