"""Granite 3: Llama with multipliers of embeddings, scores, residuals and logits (muP)."""

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
    """Logits are divided by their scaling; the other factors multiply."""
    rope, bias = rotary(config), config["attention_bias"]
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(
                config,
                layer,
                rope,
                bias=bias,
                output_bias=bias,
                scale=float(config["attention_multiplier"]),
            ),
            mlp(config, layer, bias=config["mlp_bias"]),
        )
        for layer in range(config["num_hidden_layers"])
    ]
    return decoder(
        config,
        blocks,
        embedding_scale=float(config["embedding_multiplier"]),
        residual_scale=float(config["residual_multiplier"]),
        logits_scale=1.0 / config["logits_scaling"],
    )


ARCHITECTURE = Architecture(
    models="Granite 3",
    schema=ConfigSchema(
        LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act"),
        {
            **ROPE,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "embedding_multiplier": 1.0,
            "residual_multiplier": 1.0,
            "attention_multiplier": 1.0,
            "logits_scaling": 1.0,
        },
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
