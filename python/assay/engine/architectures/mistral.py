"""Mistral: Llama with an explicit head size, and in its first version a sliding window."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import decoder, mlp, pre_norm_blocks
from assay.engine.architectures.schema import Architecture, Config, llama_schema, uniform_windows


def build(config: Config) -> Decoder:
    """Every layer has the window, if there is one."""
    return decoder(config, pre_norm_blocks(config, mlp, uniform_windows(config)))


ARCHITECTURE = Architecture(
    models="Mistral 7B, Mistral Nemo and Small",
    schema=llama_schema(required=("rms_norm_eps", "hidden_act", "sliding_window")),
    decoder=build,
    small={"sliding_window": None},
    gguf="llama",
)
