"""Keys of `config.json` beyond the schema: without effect on logits, refused, or unknown.

The reference is what `transformers` computes for the `model_type`. A key is either implemented
(`configuration.SCHEMAS`, `rope_scaling`), listed here as without effect, refused by name unless its
value is the neutral one, or unknown. `transformers` ignores an unknown key, so a note names it; one
whose name says that it changes attention, RoPE, norms, experts or logits is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from assay.errors import InputError, UnsupportedError

IMPLEMENTED: Final = frozenset(
    {
        "model_type",
        "head_dim",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "original_max_position_embeddings",
        "attention_bias",
        "mlp_bias",
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
        "layer_types",
        # Files of Gemma have both; transformers reads hidden_activation.
        "hidden_act",
        "bos_token_id",
        "eos_token_id",
    }
)
"""Keys that are read beside the dimensions, required keys and defaults of a schema."""

_HARMLESS: Final = """
    _name_or_path _attn_implementation _attn_implementation_autoset architectures dtype torch_dtype
    transformers_version transformers.js_config use_cache pad_token_id unk_token_id sep_token_id
    cls_token_id mask_token_id decoder_start_token_id forced_bos_token_id forced_eos_token_id
    initializer_range pretraining_tp attention_dropout hidden_dropout dropout resid_pdrop embd_pdrop
    attn_pdrop classifier_dropout output_attentions output_hidden_states output_router_logits
    return_dict return_dict_in_generate id2label label2id num_labels problem_type finetuning_task
    task_specific_params tokenizer_class prefix chunk_size_feed_forward gradient_checkpointing
    is_decoder tie_encoder_decoder torchscript use_bfloat16 tf_legacy_loss n_ctx summary_activation
    summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
    reorder_and_upcast_attn cache_implementation max_length min_length max_new_tokens do_sample
    early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p
    repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    bad_words_ids num_return_sequences output_scores remove_invalid_values
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens unsloth_fixed
    unsloth_version cross_attention_hidden_size model_max_length use_flash_attention_2
    _flash_attn_2_enabled attn_implementation use_flash_attn use_flash_attention num_logits_to_keep
    attn_dropout attention_probs_dropout_prob hidden_dropout_prob embedding_dropout residual_dropout
    router_aux_loss_coef router_jitter_noise _sliding_window_pattern ep_size aux_loss_alpha seq_aux
    qk_head_dim
"""
HARMLESS: Final = frozenset(_HARMLESS.split())
"""Keys of dropout, training, generation defaults, labels and file keeping: logits do not move."""

NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    # Weights stored in another way.
    "quantization_config": (None,),
    "compression_config": (None,),
    "pruned_heads": (None, {}),
    # Positions.
    "partial_rotary_factor": (None, 1.0),
    "rotary_pct": (None, 1.0),
    "rope_interleaved": (None, False),
    "rope_interleave": (None, False),
    "rope_local_base_freq": (None,),
    "use_mrope": (None, False),
    "mrope_section": (None,),
    "alibi": (None, False),
    "use_alibi": (None, False),
    "no_rope_layers": (None, []),
    "no_rope_layer_interval": (None, 0),
    "position_embedding_type": (None, "absolute", "rope"),
    # Attention.
    "attn_logit_softcapping": (None,),
    "query_pre_attn_scalar": (None,),
    "attention_multiplier": (None,),
    "attn_scale": (None,),
    "attention_chunk_size": (None,),
    "attn_temperature_tuning": (None, False, 0),
    "floor_scale": (None,),
    "clip_qkv": (None,),
    "qk_norm": (None, False),
    "use_qk_norm": (None, False),
    "qk_layernorm": (None, False),
    "use_bidirectional_attention": (None, False),
    "is_causal": (None, True),
    "scale_attn_weights": (None, True),
    "scale_attn_by_inverse_layer_idx": (None, False),
    "add_cross_attention": (None, False),
    "is_encoder_decoder": (None, False),
    "num_attention_sinks": (None, 0),
    "attention_sinks": (None, False),
    "kv_lora_rank": (None,),
    "q_lora_rank": (None,),
    # Scales of the embedding, the residual stream and the logits.
    "final_logit_softcapping": (None,),
    "logits_scaling": (None, 1.0),
    "logit_scale": (None, 1.0),
    "embedding_multiplier": (None, 1.0),
    "residual_multiplier": (None, 1.0),
    "lm_head_multiplier": (None, 1.0),
    "scale_emb": (None, 1.0),
    "scale_depth": (None,),
    "dim_model_base": (None,),
    "mup_use_scaling": (None, False),
    # Layers of another kind.
    "hidden_activation": (None, "silu"),
    "use_parallel_residual": (None, False),
    "norm_type": (None, "rmsnorm", "rms_norm"),
    "num_experts": (None, 0),
    "num_local_experts": (None, 0),
    "n_routed_experts": (None, 0),
    "num_experts_per_tok": (None, 0),
    "num_nextn_predict_layers": (None, 0),
    "moe_layer_freq": (None, 1),
    "num_kv_shared_layers": (None, 0),
    "cross_layer_attention": (None, False),
    "use_cla": (None, False),
    "word_embed_proj_dim": (None,),
    "use_embedding_sharing": (None, False),
    # Models within a model, and code that would compute another one.
    "text_config": (None,),
    "vision_config": (None,),
    "audio_config": (None,),
    "vision_tower": (None,),
    "mm_vision_tower": (None,),
}
"""Keys that would change logits and are not implemented: only these values are accepted."""

# Unknown keys with such names would change logits too, if they mean what they say.
_COMPUTATION: Final = re.compile(
    "rope|rotary|alibi|attn|attention|softcap|logit|multiplier|expert|moe|norm|activation|hidden_act"
)

_LAYER_TYPES: Final = ("full_attention", "sliding_attention")


def check_keys(
    where: str,
    architecture: str,
    config: Mapping[str, Any],
    schema_keys: frozenset[str],
    model_code: tuple[str, ...] = (),
) -> list[str]:
    """Refuse what would change results and is not implemented; a note names unknown keys.

    `model_code` names classes of the publisher's code that compute what the architecture does.
    """
    for key, neutral in NEUTRAL.items():
        if key in schema_keys:
            continue
        if key in config and not is_neutral(config[key], neutral):
            expected = " or ".join(repr(value) for value in neutral if value is not None) or "none"
            raise UnsupportedError(
                f"{where}: expected {key} {expected}, got {short(config[key])}",
                f"the engine does not implement {key}; without it logits would be wrong",
            )
    _check_code(where, config.get("auto_map"), model_code)
    _check_layer_types(where, architecture, config)
    known = IMPLEMENTED | HARMLESS | NEUTRAL.keys() | schema_keys | {"auto_map"}
    unknown = sorted(set(config) - known)
    for key in unknown:
        if _COMPUTATION.search(key) and config[key] not in (None, False):
            raise UnsupportedError(
                f'{where}: expected only known keys of the computation, got "{key}"',
                "if it does not change the results, remove it from the file",
            )
    if not unknown:
        return []
    return [f"{where}: unknown keys, not used: {', '.join(unknown)}"]


def is_neutral(value: Any, neutral: tuple[Any, ...]) -> bool:
    """Whether a value is one of those that leave the computation as it is."""
    # true equals 1 in Python; a flag is never the neutral value of a number, nor the reverse.
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in neutral)


def _check_code(where: str, auto_map: Any, known: tuple[str, ...]) -> None:
    named = auto_map.items() if isinstance(auto_map, dict) else ()
    if any(
        name.startswith("AutoModel") and str(code).rpartition(".")[2] not in known
        for name, code in named
    ):
        raise UnsupportedError(
            f"{where}: expected no model code in auto_map, got {short(auto_map)}",
            "the model is computed by code of its own; without that code logits may be wrong",
        )


def _check_layer_types(where: str, architecture: str, config: Mapping[str, Any]) -> None:
    kinds = config.get("layer_types")
    if kinds is None:
        return
    layers = config["n_layer" if architecture == "gpt2" else "num_hidden_layers"]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise InputError(f"{where}: expected layer_types of {layers} layers, got {short(kinds)}")
    for kind in kinds:
        if kind not in _LAYER_TYPES:
            raise UnsupportedError(
                f"{where}: expected layer_types of {' and '.join(_LAYER_TYPES)}, got {short(kind)}"
            )


def short(value: Any) -> str:
    """A value as a message shows it, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
