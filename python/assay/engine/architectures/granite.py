"""Granite 3: Llama with multipliers of embeddings, scores, residuals and logits (muP)."""

from __future__ import annotations

from functools import partial

from assay.engine.architectures.decoder import Decoder
from assay.engine.architectures.llama_layers import decoder, mlp, pre_norm_blocks
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """Logits are divided by their scaling; the other factors multiply."""
    bias, inner = config["attention_bias"], partial(mlp, bias=config["mlp_bias"])
    scale = float(config["attention_multiplier"])
    return decoder(
        config,
        pre_norm_blocks(config, inner, bias=bias, output_bias=bias, scale=scale),
        embedding_scale=float(config["embedding_multiplier"]),
        residual_scale=float(config["residual_multiplier"]),
        logits_scale=1.0 / config["logits_scaling"],
    )


ARCHITECTURE = Architecture(
    models="Granite 3",
    schema=llama_schema(
        attention_bias=False,
        mlp_bias=False,
        embedding_multiplier=1.0,
        residual_multiplier=1.0,
        attention_multiplier=1.0,
        logits_scaling=1.0,
    ),
    decoder=build,
    small={
        "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22,
        "attention_multiplier": 0.015625,
        "logits_scaling": 8.0,
        "attention_bias": False,
        "mlp_bias": False,
    },
    gguf="granite",
)
