"""DeepSeek V2: latent attention, and experts chosen by their softmax, within groups of them."""

from __future__ import annotations

from assay.engine.architectures import deepseek_layers
from assay.engine.architectures.decoder import Decoder, Routing
from assay.engine.architectures.deepseek_layers import DIMENSIONS, SMALL, check_choice
from assay.engine.architectures.schema import ROPE, Architecture, Config, ConfigSchema

METHODS = ("greedy", "group_limited_greedy")


def routing(config: Config) -> Routing:
    """The best experts, or the best of the best groups; weights are not normalized."""
    check_choice(config, "scoring_func", ("softmax",))
    # transformers does not read it; the publisher's code would normalize.
    check_choice(config, "norm_topk_prob", (False, None))
    grouped = check_choice(config, "topk_method", METHODS) == METHODS[1]
    return Routing(
        config["n_routed_experts"],
        config["num_experts_per_tok"],
        normalize=False,
        groups=config["n_group"] if grouped else 1,
        top_groups=config["topk_group"] if grouped else 1,
        factor=float(config["routed_scaling_factor"]),
    )


def build(config: Config) -> Decoder:
    """RoPE rotates adjacent dimensions."""
    return deepseek_layers.build(config, routing(config), interleaved=True)


ARCHITECTURE = Architecture(
    models="DeepSeek-V2, DeepSeek-V2-Lite, DeepSeek-Coder-V2",
    schema=ConfigSchema(
        DIMENSIONS,
        ("rms_norm_eps", "hidden_act", "q_lora_rank"),
        {
            **ROPE,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "first_k_dense_replace": 0,
            "n_group": None,
            "topk_group": None,
            "topk_method": "greedy",
            "scoring_func": "softmax",
            "norm_topk_prob": False,
            "routed_scaling_factor": 1.0,
        },
    ),
    decoder=build,
    small={
        **SMALL,
        "topk_method": "greedy",
        "scoring_func": "softmax",
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
    },
    model_code=("DeepseekV2Model", "DeepseekV2ForCausalLM"),
    gguf="deepseek2",
)
