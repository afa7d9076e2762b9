"""Qwen3-MoE: Qwen3 with experts."""

from __future__ import annotations

from assay.engine.architectures.decoder import Decoder, Experts, Mlp
from assay.engine.architectures.expert_layers import experts
from assay.engine.architectures.llama_layers import MODEL, decoder, mlp
from assay.engine.architectures.qwen2_moe import EXPERT_DEFAULTS, is_sparse, routing
from assay.engine.architectures.qwen3 import blocks
from assay.engine.architectures.schema import Architecture, Config, llama_schema


def build(config: Config) -> Decoder:
    """QK norm of each head, and experts without a shared one."""
    return decoder(config, blocks(config, _mlp))


def _mlp(config: Config, layer: int) -> Mlp | Experts:
    if not is_sparse(config, layer):
        return mlp(config, layer)
    base = f"{MODEL}.layers.{layer}.mlp"
    return experts(config, routing(config), base, config["moe_intermediate_size"])


ARCHITECTURE = Architecture(
    models="Qwen3-30B-A3B, Qwen3-235B-A22B",
    schema=llama_schema(
        "head_dim",
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        **EXPERT_DEFAULTS,
        attention_bias=False,
        use_sliding_window=False,
    ),
    decoder=build,
    small={
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "use_sliding_window": False,
        "attention_bias": False,
        **EXPERT_DEFAULTS,
        "norm_topk_prob": True,
    },
    gguf="qwen3moe",
)
