"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import attention, decoder, mlp, pre_norm_block, rotary
from assay.engine.architectures.schema import (
    LLAMA_DIMENSIONS,
    ROPE,
    Architecture,
    Config,
    ConfigSchema,
    layer_windows,
)


def windows(config: Config) -> list[int]:
    """The layers from `max_window_layers` on have the window, where it is used."""
    first = config.get("max_window_layers", 28)
    return layer_windows(config, lambda layer: layer >= first)


def build(config: Config) -> Decoder:
    """Biases on the projections into attention."""
    rope = rotary(config)
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(config, layer, rope, bias=True, window=window),
            mlp(config, layer),
        )
        for layer, window in enumerate(windows(config))
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="Qwen2, Qwen2.5",
    schema=ConfigSchema(
        LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act"),
        {**ROPE, "tie_word_embeddings": False, "use_sliding_window": False},
    ),
    decoder=build,
    small={"use_sliding_window": False, "tie_word_embeddings": True},
    gguf="qwen2",
)
