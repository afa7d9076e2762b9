"""DeepSeek V3 and R1: V2's attention, and experts chosen by sigmoids with a bias."""

from __future__ import annotations

from assay.engine.architectures import deepseek_layers
from assay.engine.architectures.decoder import Decoder, Routing
from assay.engine.architectures.deepseek_layers import DIMENSIONS, SMALL, check_choice
from assay.engine.architectures.schema import ROPE, Architecture, Config, ConfigSchema


def routing(config: Config) -> Routing:
    """The best experts of the groups whose two best ones are best together."""
    check_choice(config, "scoring_func", ("sigmoid",))
    check_choice(config, "topk_method", ("noaux_tc",))
    return Routing(
        config["n_routed_experts"],
        config["num_experts_per_tok"],
        sigmoid=True,
        normalize=config["norm_topk_prob"],
        groups=config["n_group"],
        top_groups=config["topk_group"],
        top_two_groups=True,
        factor=float(config["routed_scaling_factor"]),
        bias="e_score_correction_bias",
    )


def build(config: Config) -> Decoder:
    """RoPE rotates adjacent dimensions, or the halves of a head where the configuration says so."""
    return deepseek_layers.build(
        config, routing(config), interleaved=bool(config["rope_interleave"])
    )


ARCHITECTURE = Architecture(
    models="DeepSeek-V3, DeepSeek-R1",
    schema=ConfigSchema(
        (*DIMENSIONS, "n_group", "topk_group"),
        ("rms_norm_eps", "hidden_act", "q_lora_rank"),
        {
            **ROPE,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "first_k_dense_replace": 3,
            "norm_topk_prob": True,
            "scoring_func": "sigmoid",
            "topk_method": "noaux_tc",
            "routed_scaling_factor": 2.5,
            "rope_interleave": True,
            "num_nextn_predict_layers": 0,
        },
    ),
    decoder=build,
    small={
        **SMALL,
        "norm_topk_prob": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "routed_scaling_factor": 2.5,
        "rope_interleave": True,
        "num_nextn_predict_layers": 0,
    },
    model_code=("DeepseekV3Model", "DeepseekV3ForCausalLM"),
    gguf="deepseek2",
)
