"""Llama 2 and 3."""

from __future__ import annotations

from functools import partial

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import decoder, mlp, pre_norm_blocks
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """RMSNorm, RoPE, grouped-query attention and SwiGLU."""
    bias, inner = config["attention_bias"], partial(mlp, bias=config["mlp_bias"])
    return decoder(config, pre_norm_blocks(config, inner, bias=bias, output_bias=bias))


ARCHITECTURE = Architecture(
    models="Llama 2 and 3, SmolLM2, TinyLlama",
    schema=llama_schema(attention_bias=False, mlp_bias=False),
    decoder=build,
    small={"attention_bias": False, "mlp_bias": False},
    gguf="llama",
)
