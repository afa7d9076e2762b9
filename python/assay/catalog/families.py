"""Model families: conventions that a `model_type` implies and its configuration does not state."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Family:
    """Conventions of one `model_type`: norms, biases, gates and defaults of absent fields."""

    gated: bool = True
    tied: bool = False
    biases: bool = False
    attention_biases: bool = True
    qkv_bias: bool = False
    logit_bias: bool = False
    router_bias: bool = False
    norm_vectors: float = 1.0
    layer_norms: float = 2.0
    outer_norms: float = 1.0
    head_norms: int = 0
    ffn_ratio: float = 0.0
    position_field: str | None = None
    position_offset: float = 0.0
    window_pattern: float = 1.0
    multi_query_flag: bool = False
    shared_gate: bool = False
    shared_expert: bool = False
    gated_attention: bool = False
    sinks: bool = False
    counts_lookup: bool = True
    is_mamba: bool = False
    """Whether layers without attention are Mamba-2."""
    is_state_space: bool = False
    """Whether no layer has attention or a feed-forward."""


STANDARD = Family()
"""The shape of Llama: gated feed-forward, RMS norms, no biases."""

_CLASSIC = Family(gated=False, tied=True, biases=True, norm_vectors=2.0, ffn_ratio=4.0)
_QWEN3 = replace(STANDARD, head_norms=1)
_HYBRID = replace(_QWEN3, shared_gate=True, gated_attention=True)
_GEMMA = replace(STANDARD, tied=True)

FAMILIES: dict[str, Family] = {
    "llama": STANDARD,
    "llama4_text": replace(STANDARD, window_pattern=4.0, shared_expert=True),
    "mistral": STANDARD,
    "mixtral": STANDARD,
    "granite": STANDARD,
    "smollm3": STANDARD,
    "phi3": STANDARD,
    "deepseek_v2": STANDARD,
    "deepseek_v3": STANDARD,
    "deepseek_v32": STANDARD,
    "kimi_k2": STANDARD,
    "glm_moe_dsa": STANDARD,
    "minimax_m2": STANDARD,
    "qwen2": replace(STANDARD, qkv_bias=True),
    "mimo": replace(STANDARD, qkv_bias=True),
    "qwen2_moe": replace(STANDARD, qkv_bias=True, shared_gate=True),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _HYBRID,
    "qwen3_5_text": _HYBRID,
    "qwen3_5_moe_text": _HYBRID,
    "gpt_oss": replace(STANDARD, biases=True, router_bias=True, sinks=True, window_pattern=2.0, counts_lookup=False),
    "olmo": replace(STANDARD, norm_vectors=0.0),
    "olmo2": replace(STANDARD, head_norms=2),
    "palm": replace(STANDARD, tied=True),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, layer_norms=4.0, window_pattern=2.0),
    "gemma3_text": replace(_GEMMA, layer_norms=4.0, head_norms=1, window_pattern=6.0),
    "gpt2": replace(_CLASSIC, position_field="n_positions"),
    "opt": replace(_CLASSIC, position_field="max_position_embeddings", position_offset=2.0),
    "gpt_neox": replace(_CLASSIC, tied=False),
    "gptj": replace(
        _CLASSIC, tied=False, layer_norms=1.0, attention_biases=False, logit_bias=True
    ),
    "bloom": replace(_CLASSIC, outer_norms=2.0),
    "phi": replace(_CLASSIC, tied=False, layer_norms=1.0, logit_bias=True),
    "starcoder2": _CLASSIC,
    "mamba2": replace(
        STANDARD, tied=True, layer_norms=1.0, is_mamba=True, is_state_space=True
    ),
    "bamba": replace(STANDARD, is_mamba=True),
    "granitemoehybrid": replace(STANDARD, is_mamba=True),
    "mpt": Family(gated=False, tied=True, ffn_ratio=4.0),
    "falcon": Family(
        gated=False, tied=True, norm_vectors=2.0, ffn_ratio=4.0, multi_query_flag=True
    ),
}  # fmt: skip
"""By `model_type`, as the classes of Hugging Face Transformers build them."""

UNSUPPORTED = frozenset(
    ("nemotron_h", "kimi_linear", "mamba", "jamba", "falcon_mamba", "rwkv", "bert", "t5")
)
"""Types whose layers the `architecture` scope has no variables for."""
