"""Mixtral: Mistral with a mixture of experts in every layer."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder, Routing
from assay.engine.architectures.expert_layers import experts
from assay.engine.architectures.llama_layers import (
    MODEL,
    attention,
    decoder,
    pre_norm_block,
    rotary,
)
from assay.engine.architectures.schema import (
    LLAMA_DIMENSIONS,
    ROPE,
    Architecture,
    Config,
    ConfigSchema,
    uniform_windows,
)


def build(config: Config) -> Decoder:
    """The weights of a token's experts sum to one."""
    rope = rotary(config)
    routing = Routing(config["num_local_experts"], config["num_experts_per_tok"])
    blocks = [
        pre_norm_block(
            config,
            layer,
            attention(config, layer, rope, window=window),
            experts(
                config,
                routing,
                f"{MODEL}.layers.{layer}.block_sparse_moe",
                config["intermediate_size"],
                names=("w1", "w3", "w2"),
            ),
        )
        for layer, window in enumerate(uniform_windows(config))
    ]
    return decoder(config, blocks)


ARCHITECTURE = Architecture(
    models="Mixtral 8x7B, 8x22B",
    schema=ConfigSchema(
        (*LLAMA_DIMENSIONS, "num_local_experts", "num_experts_per_tok"),
        ("rms_norm_eps", "hidden_act"),
        {**ROPE, "tie_word_embeddings": False, "sliding_window": None},
    ),
    decoder=build,
    small={"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    gguf="llama",
)
