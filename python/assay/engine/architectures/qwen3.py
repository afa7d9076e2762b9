"""Qwen3: Llama with QK norm: an RMSNorm of each query and key head before RoPE."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, pre_norm_block, rotary
from assay.engine.architectures.qwen2 import windows
from assay.engine.architectures.schema import (
    LLAMA_DIMENSIONS,
    ROPE,
    Architecture,
    Config,
    ConfigSchema,
)


def build(config: Config) -> Decoder:
    """QK norm of each head."""
    rope, bias = rotary(config), config["attention_bias"]
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(
                config, layer, rope, bias=bias, output_bias=bias, window=window, norms="head"
            ),
            mlp(config, layer),
        )
        for layer, window in enumerate(windows(config))
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="Qwen3",
    schema=ConfigSchema(
        (*LLAMA_DIMENSIONS, "head_dim"),
        ("rms_norm_eps", "hidden_act"),
        {
            **ROPE,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "use_sliding_window": False,
        },
    ),
    decoder=build,
    small={"use_sliding_window": False, "attention_bias": False},
    gguf="qwen3",
)
