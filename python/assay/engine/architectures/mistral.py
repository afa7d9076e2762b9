"""Mistral: Llama with an explicit head size, and in its first version a sliding window."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, pre_norm_block, rotary
from assay.engine.architectures.schema import (
    LLAMA_DIMENSIONS,
    ROPE,
    Architecture,
    Config,
    ConfigSchema,
    uniform_windows,
)


def build(config: Config) -> Decoder:
    """Every layer has the window, if there is one."""
    rope = rotary(config)
    blocks = [
        pre_norm_block(
            config, layer, attention(config, layer, rope, window=window), mlp(config, layer)
        )
        for layer, window in enumerate(uniform_windows(config))
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="Mistral 7B, Mistral Nemo and Small",
    schema=ConfigSchema(
        LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act", "sliding_window"),
        {**ROPE, "tie_word_embeddings": False},
    ),
    decoder=build,
    small={"sliding_window": None},
    gguf="llama",
)
