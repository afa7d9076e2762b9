"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import decoder, mlp, pre_norm_blocks
from assay.engine.architectures.schema import Architecture, Config, layer_windows, llama_schema


def windows(config: Config) -> list[int]:
    """The layers from `max_window_layers` on have the window, where it is used."""
    first = config.get("max_window_layers", 28)
    return layer_windows(config, lambda layer: layer >= first)


def build(config: Config) -> Decoder:
    """Biases on the projections into attention."""
    return decoder(config, pre_norm_blocks(config, mlp, windows(config), bias=True))


ARCHITECTURE = Architecture(
    models="Qwen2, Qwen2.5",
    schema=llama_schema(use_sliding_window=False),
    decoder=build,
    small={"use_sliding_window": False, "tie_word_embeddings": True},
    gguf="qwen2",
)
