"""Qwen2-MoE: Qwen2 with experts, and a shared expert behind a gate of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assay.engine.architectures.decoder import Decoder, Experts, Linear, Mlp, Routing
from assay.engine.architectures.expert_layers import experts
from assay.engine.architectures.llama_layers import MODEL, decoder, gated_mlp, mlp, pre_norm_blocks
from assay.engine.architectures.qwen2 import windows
from assay.engine.architectures.schema import Architecture, Config, llama_schema

EXPERT_DEFAULTS: Final[Mapping[str, Any]] = {
    "norm_topk_prob": False,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}


def is_sparse(config: Config, layer: int) -> bool:
    """Whether a layer has experts, rather than one MLP."""
    dense = config["mlp_only_layers"] or []
    return layer not in dense and (layer + 1) % config["decoder_sparse_step"] == 0


def routing(config: Config) -> Routing:
    """The softmax of all experts weighs a token's, normalized where the configuration says so."""
    return Routing(
        config["num_experts"], config["num_experts_per_tok"], normalize=config["norm_topk_prob"]
    )


def build(config: Config) -> Decoder:
    """A shared expert of its own width is added to the experts of each token."""
    blocks = pre_norm_blocks(config, _mlp, windows(config), bias=config["qkv_bias"])
    return decoder(config, blocks)


def _mlp(config: Config, layer: int) -> Mlp | Experts:
    if not is_sparse(config, layer):
        return mlp(config, layer)
    base, hidden = f"{MODEL}.layers.{layer}.mlp", config["hidden_size"]
    shared = gated_mlp(config, f"{base}.shared_expert", config["shared_expert_intermediate_size"])
    return experts(
        config,
        routing(config),
        base,
        config["moe_intermediate_size"],
        shared=shared,
        shared_gate=Linear((f"{base}.shared_expert_gate",), (1,), hidden),
    )


ARCHITECTURE = Architecture(
    models="Qwen1.5-MoE, Qwen2-57B-A14B",
    schema=llama_schema(
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        **EXPERT_DEFAULTS,
        use_sliding_window=False,
        qkv_bias=True,
    ),
    decoder=build,
    small={
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "shared_expert_intermediate_size": 256,
        "use_sliding_window": False,
        "qkv_bias": True,
        **EXPERT_DEFAULTS,
    },
    gguf="qwen2moe",
)
