"""Mixtral: Mistral with a mixture of experts in every layer."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder, Experts, Routing
from assay.engine.architectures.expert_layers import experts
from assay.engine.architectures.llama_layers import MODEL, decoder, pre_norm_blocks
from assay.engine.architectures.schema import Architecture, Config, llama_schema, uniform_windows


def build(config: Config) -> Decoder:
    """The weights of a token's experts sum to one."""
    return decoder(config, pre_norm_blocks(config, _experts, uniform_windows(config)))


def _experts(config: Config, layer: int) -> Experts:
    return experts(
        config,
        Routing(config["num_local_experts"], config["num_experts_per_tok"]),
        f"{MODEL}.layers.{layer}.block_sparse_moe",
        config["intermediate_size"],
        names=("w1", "w3", "w2"),
    )


ARCHITECTURE = Architecture(
    models="Mixtral 8x7B, 8x22B",
    schema=llama_schema("num_local_experts", "num_experts_per_tok", sliding_window=None),
    decoder=build,
    small={"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    gguf="llama",
)
