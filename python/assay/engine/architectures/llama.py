"""Llama 2 and 3."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, pre_norm_block, rotary
from assay.engine.architectures.schema import (
    LLAMA_DIMENSIONS,
    ROPE,
    Architecture,
    Config,
    ConfigSchema,
)


def build(config: Config) -> Decoder:
    """RMSNorm, RoPE, grouped-query attention and SwiGLU."""
    rope, bias = rotary(config), config["attention_bias"]
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(config, layer, rope, bias=bias, output_bias=bias),
            mlp(config, layer, bias=config["mlp_bias"]),
        )
        for layer in range(config["num_hidden_layers"])
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="Llama 2 and 3, SmolLM2, TinyLlama",
    schema=ConfigSchema(
        LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act"),
        {**ROPE, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False},
    ),
    decoder=build,
    small={"attention_bias": False, "mlp_bias": False},
    gguf="llama",
)
