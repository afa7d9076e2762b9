"""What GGUF files of some architectures state beyond the Llama family, as config.json keys.

Names and rules are those of llama.cpp (`src/llama-arch.cpp`, `src/llama-model.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.gguf_rope import gguf_latent_scaling, gguf_rope_scaling
from assay.errors import InputError, UnsupportedError

SIGMOID: Final = "sigmoid"
_GATING: Final = {1: "softmax", 2: SIGMOID}
_GATING_SOFTMAX: Final = 1
"""How scores of experts are made, by the numbers of `expert_gating_func`."""

MAX_LAYERS: Final = 1 << 16

_27B_LAYERS: Final = {"gemma2": 46, "gemma3": 62}
"""Layers of the 27B models, whose scores are scaled by the width of a head of the hidden size."""


def _gemma(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    heads = metadata.require(f"{name}.attention.head_count", int)
    width = metadata.require(f"{name}.embedding_length", int)
    size = metadata.get(f"{name}.attention.key_length", int) or width // max(heads, 1)
    if metadata.require(f"{name}.block_count", int) == _27B_LAYERS[name]:
        size = width // max(heads, 1)
    found = {
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": size,
        "sliding_window": metadata.require(f"{name}.attention.sliding_window", int),
        "attn_logit_softcapping": metadata.get(f"{name}.attn_logit_softcapping", float) or None,
        "final_logit_softcapping": metadata.get(f"{name}.final_logit_softcapping", float) or None,
    }
    if name == "gemma3":
        base = metadata.get(f"{name}.rope.freq_base_swa", float)
        found["rope_local_base_freq"] = 10000.0 if base is None else base
        found["sliding_window_pattern"] = 6
        if f"{name}.rope.freq_base" not in metadata:
            found["rope_theta"] = 1000000.0
    return found | _layer_types(metadata, name)


def _granite(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    """llama.cpp divides the logits by logit_scale, as transformers does by logits_scaling."""
    return {
        "attention_multiplier": metadata.require(f"{name}.attention.scale", float),
        "embedding_multiplier": metadata.require(f"{name}.embedding_scale", float),
        "residual_multiplier": metadata.require(f"{name}.residual_scale", float),
        "logits_scaling": metadata.require(f"{name}.logit_scale", float),
    }


def _smollm3(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    # llama.cpp fixes the interval.
    return {"no_rope_layers": None, "no_rope_layer_interval": 4}


def _layer_types(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    """Which layers have the window: each n-th has none, or the layers are listed."""
    key = f"{name}.attention.sliding_window_pattern"
    if key not in metadata:
        return {}
    layers = metadata.require(f"{name}.block_count", int)
    stated = metadata.value(key)
    if isinstance(stated, list):
        flags = [bool(flag) for flag in stated]
    elif isinstance(stated, int) and not isinstance(stated, bool) and stated > 0:
        # A hostile number of layers is refused later, before anything of its size is made.
        flags = [layer % stated < stated - 1 for layer in range(min(layers, MAX_LAYERS))]
    else:
        raise InputError(f"{metadata.where}: expected {key} as a number or a list, got {stated!r}")
    return {"layer_types": ["sliding_attention" if flag else "full_attention" for flag in flags]}


def _cohere2(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    return {
        "logit_scale": metadata.require(f"{name}.logit_scale", float),
        "sliding_window_pattern": 4,
        **_layer_types(metadata, name),
    }


def _starcoder2(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    return {"hidden_act": "gelu_pytorch_tanh", "use_bias": True}


def _experts(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    count = metadata.require(f"{name}.expert_count", int)
    return {
        **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), count),
        "num_experts_per_tok": metadata.require(f"{name}.expert_used_count", int),
    }


def _gpt_oss(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    configuration_keys = {
        **_experts(metadata, name),
        "attention_bias": True,
        "intermediate_size": metadata.require(f"{name}.expert_feed_forward_length", int),
        **_layer_types(metadata, name),
    }
    scaling = gguf_rope_scaling(metadata, name)
    if scaling is not None and scaling["rope_type"] == "yarn":
        # llama.cpp rounds the ends of YaRN's ramp; the model was trained without that.
        configuration_keys["rope_scaling"] = {**scaling, "truncate": False}
    return configuration_keys


def _llama(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    """Files of Mixtral say "llama", too; llama.cpp normalizes the weights of experts."""
    return _experts(metadata, name) if metadata.get(f"{name}.expert_count", int) else {}


def _qwen_moe(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    shared = f"{name}.expert_shared_feed_forward_length"
    inner = metadata.get(f"{name}.expert_feed_forward_length", int)
    experts = _experts(metadata, name)
    if inner is None:
        # The first files state the width of all of a token's experts together.
        total = metadata.require(f"{name}.feed_forward_length", int)
        inner = total // max(experts["num_experts_per_tok"], 1)
    configuration_keys = {
        **experts,
        "moe_intermediate_size": inner,
        # llama.cpp fixes it by the architecture.
        "norm_topk_prob": name == "qwen3moe",
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    if name == "qwen2moe":
        configuration_keys["shared_expert_intermediate_size"] = metadata.require(shared, int)
        configuration_keys["qkv_bias"] = True
    return configuration_keys


def _gpt2(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    return {
        "n_embd": metadata.require(f"{name}.embedding_length", int),
        "n_layer": metadata.require(f"{name}.block_count", int),
        "n_head": metadata.require(f"{name}.attention.head_count", int),
        "n_positions": metadata.require(f"{name}.context_length", int),
        "n_inner": metadata.require(f"{name}.feed_forward_length", int),
        "layer_norm_epsilon": metadata.require(f"{name}.attention.layer_norm_epsilon", float),
        # The only activation that llama.cpp has for this architecture.
        "activation_function": "gelu_new",
    }


def _deepseek2(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    """Latent attention; the first files state the sizes of heads before the split of kv_b."""
    heads = metadata.require(f"{name}.attention.head_count", int)
    rotated = metadata.require(f"{name}.rope.dimension_count", int)
    sizes = {}
    for kind in ("key", "value"):
        size = metadata.get(f"{name}.attention.{kind}_length_mla", int)
        if size is None:
            size = metadata.require(f"{name}.attention.{kind}_length", int)
        sizes[kind] = size
    gating = metadata.get(f"{name}.expert_gating_func", int) or _GATING_SOFTMAX
    if gating not in _GATING:
        raise UnsupportedError(
            f"{metadata.where}: expected {name}.expert_gating_func 1 or 2, got {gating}",
            "without it a token's experts would be others",
        )
    groups = metadata.get(f"{name}.expert_group_count", int) or 1
    base = metadata.get(f"{name}.rope.freq_base", float)
    scale = metadata.get(f"{name}.expert_weights_scale", float)
    sigmoid = _GATING[gating] == SIGMOID
    softmax_method = "group_limited_greedy" if groups > 1 else "greedy"
    return {
        **_experts(metadata, name),
        "hidden_size": metadata.require(f"{name}.embedding_length", int),
        "intermediate_size": metadata.require(f"{name}.feed_forward_length", int),
        "moe_intermediate_size": metadata.require(f"{name}.expert_feed_forward_length", int),
        "num_hidden_layers": metadata.require(f"{name}.block_count", int),
        "num_attention_heads": heads,
        # Files count one head of keys, the latent; config.json counts one for each query head.
        "num_key_value_heads": heads,
        "max_position_embeddings": metadata.require(f"{name}.context_length", int),
        "rms_norm_eps": metadata.require(f"{name}.attention.layer_norm_rms_epsilon", float),
        "q_lora_rank": metadata.get(f"{name}.attention.q_lora_rank", int) or None,
        "kv_lora_rank": metadata.require(f"{name}.attention.kv_lora_rank", int),
        "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": sizes["key"] - rotated,
        "v_head_dim": sizes["value"],
        "n_shared_experts": metadata.require(f"{name}.expert_shared_count", int),
        "first_k_dense_replace": metadata.get(f"{name}.leading_dense_block_count", int) or 0,
        "n_group": groups,
        "topk_group": metadata.get(f"{name}.expert_group_used_count", int) or 1,
        "topk_method": "noaux_tc" if sigmoid else softmax_method,
        "scoring_func": _GATING[gating],
        "norm_topk_prob": metadata.get(f"{name}.expert_weights_norm", bool) or False,
        "routed_scaling_factor": scale or 1.0,
        "hidden_act": "silu",
        "rope_theta": 10000.0 if base is None else base,
        "rope_scaling": gguf_latent_scaling(metadata, name),
        "rope_interleave": True,
        "attention_bias": False,
    }


def _mamba2(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    heads = metadata.require(f"{name}.ssm.time_step_rank", int)
    inner = metadata.require(f"{name}.ssm.inner_size", int)
    groups = metadata.get(f"{name}.ssm.group_count", int) or 1
    hidden = metadata.require(f"{name}.embedding_length", int)
    if groups != 1:
        raise UnsupportedError(
            f"{metadata.where}: expected {name}.ssm.group_count 1, got {groups}",
            "llama.cpp norms each group by itself, transformers all of them together",
        )
    return {
        "hidden_size": hidden,
        "num_hidden_layers": metadata.require(f"{name}.block_count", int),
        "num_heads": heads,
        "head_dim": inner // max(heads, 1),
        "state_size": metadata.require(f"{name}.ssm.state_size", int),
        "conv_kernel": metadata.require(f"{name}.ssm.conv_kernel", int),
        "n_groups": groups,
        "expand": inner / max(hidden, 1),
        "layer_norm_epsilon": metadata.require(f"{name}.attention.layer_norm_rms_epsilon", float),
        "hidden_act": "silu",
    }


WHOLE: Final[dict[str, Callable[[GgufMetadata, str], dict[str, Any]]]] = {
    "gpt2": _gpt2,
    "deepseek2": _deepseek2,
    "mamba2": _mamba2,
}
"""Architectures that share no keys with the Llama family."""

_MORE: Final[dict[str, Callable[[GgufMetadata, str], dict[str, Any]]]] = {
    "gemma2": _gemma,
    "gemma3": _gemma,
    "granite": _granite,
    "smollm3": _smollm3,
    "cohere2": _cohere2,
    "gpt-oss": _gpt_oss,
    "starcoder2": _starcoder2,
    "llama": _llama,
    "qwen2moe": _qwen_moe,
    "qwen3moe": _qwen_moe,
}

_EXPERT_KEYS: Final = frozenset({"expert_count", "expert_used_count"})
_WINDOWED: Final = frozenset({"attention.sliding_window_pattern"})

READ: Final[dict[str, frozenset[str]]] = {
    "bert": frozenset({"attention.causal", "pooling_type"}),
    "gemma2": _WINDOWED | {"attn_logit_softcapping", "final_logit_softcapping"},
    "gemma3": _WINDOWED
    | {"attn_logit_softcapping", "final_logit_softcapping", "rope.freq_base_swa"},
    "granite": frozenset({"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}),
    "cohere2": _WINDOWED | {"logit_scale"},
    "gpt-oss": _EXPERT_KEYS | _WINDOWED | {"expert_feed_forward_length"},
    "llama": _EXPERT_KEYS,
    "qwen2moe": _EXPERT_KEYS | {"expert_feed_forward_length", "expert_shared_feed_forward_length"},
    "qwen3moe": _EXPERT_KEYS | {"expert_feed_forward_length"},
    "deepseek2": _EXPERT_KEYS
    | {
        *("attention.q_lora_rank", "attention.kv_lora_rank"),
        *("attention.key_length_mla", "attention.value_length_mla"),
        *("expert_feed_forward_length", "expert_shared_count", "leading_dense_block_count"),
        *("expert_weights_scale", "expert_weights_norm", "expert_gating_func"),
        *("expert_group_count", "expert_group_used_count"),
    },
    "mamba2": frozenset(
        f"ssm.{key}"
        for key in ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count")
    ),
}
"""Keys that this module reads, below the name of the architecture."""


def more_configuration(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    """What an architecture states besides, or instead of, the keys of the Llama family."""
    return _MORE[name](metadata, name) if name in _MORE else {}
