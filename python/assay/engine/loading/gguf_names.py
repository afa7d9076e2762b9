"""Names of tensors in GGUF files, and the Hugging Face names of the same tensors."""

from __future__ import annotations

import re
from typing import Final

from assay.engine.loading.tensor_shapes import LM_HEAD, ROPE_FACTORS
from assay.errors import UnsupportedError

_LLAMA: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "model.layers.{}.input_layernorm",
    "attn_q": "model.layers.{}.self_attn.q_proj",
    "attn_k": "model.layers.{}.self_attn.k_proj",
    "attn_v": "model.layers.{}.self_attn.v_proj",
    "attn_output": "model.layers.{}.self_attn.o_proj",
    "attn_q_norm": "model.layers.{}.self_attn.q_norm",
    "attn_k_norm": "model.layers.{}.self_attn.k_norm",
    "ffn_norm": "model.layers.{}.post_attention_layernorm",
    "ffn_gate": "model.layers.{}.mlp.gate_proj",
    "ffn_up": "model.layers.{}.mlp.up_proj",
    "ffn_down": "model.layers.{}.mlp.down_proj",
}
_POST_NORMS: Final = {
    "post_attention_norm": "model.layers.{}.post_attention_layernorm",
    "post_ffw_norm": "model.layers.{}.post_feedforward_layernorm",
}
_GEMMA: Final = {**_LLAMA, **_POST_NORMS, "ffn_norm": "model.layers.{}.pre_feedforward_layernorm"}
_FUSED: Final = {**_LLAMA, "ffn_up": "model.layers.{}.mlp.gate_up_proj"}
_ROUTED: Final = {**_LLAMA, "ffn_gate_inp": "model.layers.{}.mlp.gate"}
_BY_ARCHITECTURE: Final[dict[str, dict[str, str]]] = {
    "gemma2": _GEMMA,
    "gemma3": _GEMMA,
    "olmo2": {**_LLAMA, **_POST_NORMS},
    "phi3": {**_FUSED, "attn_qkv": "model.layers.{}.self_attn.qkv_proj"},
    "glm4": {
        **_FUSED,
        "post_attention_norm": "model.layers.{}.post_self_attn_layernorm",
        "post_ffw_norm": "model.layers.{}.post_mlp_layernorm",
    },
    "starcoder2": {
        **_LLAMA,
        "ffn_up": "model.layers.{}.mlp.c_fc",
        "ffn_down": "model.layers.{}.mlp.c_proj",
    },
    "llama": {**_LLAMA, "ffn_gate_inp": "model.layers.{}.block_sparse_moe.gate"},
    "qwen2moe": {
        **_ROUTED,
        "ffn_gate_inp_shexp": "model.layers.{}.mlp.shared_expert_gate",
        "ffn_gate_shexp": "model.layers.{}.mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "model.layers.{}.mlp.shared_expert.up_proj",
        "ffn_down_shexp": "model.layers.{}.mlp.shared_expert.down_proj",
    },
    "qwen3moe": _ROUTED,
    "deepseek2": {
        **_ROUTED,
        "attn_q_a": "model.layers.{}.self_attn.q_a_proj",
        "attn_q_b": "model.layers.{}.self_attn.q_b_proj",
        "attn_q_a_norm": "model.layers.{}.self_attn.q_a_layernorm",
        "attn_kv_a_mqa": "model.layers.{}.self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "model.layers.{}.self_attn.kv_a_layernorm",
        "attn_kv_b": "model.layers.{}.self_attn.kv_b_proj",
        "attn_k_b": "model.layers.{}.self_attn.k_b_proj",
        "attn_v_b": "model.layers.{}.self_attn.v_b_proj",
        "ffn_gate_shexp": "model.layers.{}.mlp.shared_experts.gate_proj",
        "ffn_up_shexp": "model.layers.{}.mlp.shared_experts.up_proj",
        "ffn_down_shexp": "model.layers.{}.mlp.shared_experts.down_proj",
    },
    "gpt-oss": {
        **_LLAMA,
        "post_attention_norm": "model.layers.{}.post_attention_layernorm",
        "ffn_gate_inp": "model.layers.{}.mlp.router",
        "ffn_gate_exps": "model.layers.{}.mlp.experts.gate_proj",
        "ffn_up_exps": "model.layers.{}.mlp.experts.up_proj",
        "ffn_down_exps": "model.layers.{}.mlp.experts.down_proj",
    },
    "mamba2": {
        "token_embd": "backbone.embeddings",
        "output_norm": "backbone.norm_f",
        "attn_norm": "backbone.layers.{}.norm",
        "ssm_in": "backbone.layers.{}.mixer.in_proj",
        "ssm_conv1d": "backbone.layers.{}.mixer.conv1d",
        "ssm_norm": "backbone.layers.{}.mixer.norm",
        "ssm_out": "backbone.layers.{}.mixer.out_proj",
    },
}
_WHOLE: Final[dict[str, dict[str, str]]] = {
    "gpt-oss": {"attn_sinks.weight": "model.layers.{}.self_attn.sinks"},
    "deepseek2": {"exp_probs_b.bias": "model.layers.{}.mlp.gate.e_score_correction_bias"},
    "mamba2": {
        "ssm_a": "backbone.layers.{}.mixer.A_log",
        "ssm_d": "backbone.layers.{}.mixer.D",
        "ssm_dt.bias": "backbone.layers.{}.mixer.dt_bias",
    },
}
"""Names of which no part is an ending that both have."""


def _expert_names(base: str, gate: str, up: str, down: str) -> dict[str, str]:
    return {
        f"ffn_{kind}_exps": f"model.layers.{{}}.{base}.experts.{{}}.{name}"
        for kind, name in (("gate", gate), ("up", up), ("down", down))
    }


_MLP_EXPERTS: Final = _expert_names("mlp", "gate_proj", "up_proj", "down_proj")
EXPERT_NAMES: Final[dict[str, dict[str, str]]] = {
    "llama": _expert_names("block_sparse_moe", "w1", "w3", "w2"),
    "qwen2moe": _MLP_EXPERTS,
    "qwen3moe": _MLP_EXPERTS,
    "deepseek2": _MLP_EXPERTS,
}
"""The matrices of experts, by layer and expert; a file stacks those of a layer."""

LONG_FACTORS: Final = "rope_factors_long.weight"
SHORT_FACTORS: Final = "rope_factors_short.weight"
"""Factors of RoPE frequencies in long and in short contexts (longrope)."""

_GPT2: Final = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "attn_norm": "transformer.h.{}.ln_1",
    "attn_qkv": "transformer.h.{}.attn.c_attn",
    "attn_output": "transformer.h.{}.attn.c_proj",
    "ffn_norm": "transformer.h.{}.ln_2",
    "ffn_up": "transformer.h.{}.mlp.c_fc",
    "ffn_down": "transformer.h.{}.mlp.c_proj",
}
_EXACT_NAMES: Final = {"output.weight": LM_HEAD, ROPE_FACTORS: ROPE_FACTORS}
_NAME_PATTERN: Final = re.compile(
    r"(?:blk\.(0|[1-9][0-9]{0,5})\.)?(([a-z_0-9]+)(?:\.(weight|bias))?)"
)


def hugging_face_name(where: str, architecture: str, name: str) -> str:
    """The Hugging Face name of a tensor of a GGUF file.

    >>> hugging_face_name("a.gguf", "llama", "blk.3.attn_q.weight")
    'model.layers.3.self_attn.q_proj.weight'
    """
    if name in _EXACT_NAMES:
        return _EXACT_NAMES[name]
    if match := _NAME_PATTERN.fullmatch(name):
        layer, rest, stem, kind = match.groups()
        whole = _WHOLE.get(architecture, {}).get(rest)
        if whole is not None and layer is not None:
            return whole.format(layer)
        names = _GPT2 if architecture == "gpt2" else _BY_ARCHITECTURE.get(architecture, _LLAMA)
        known = names.get(stem) if kind is not None else None
        if known is not None and ("{}" in known) == (layer is not None):
            return f"{known.format(layer)}.{kind}"
    raise UnsupportedError(
        f'{where}: expected only the tensors of a {architecture} model, got "{name}"'
    )
