"""Metadata keys of a GGUF file's architecture: read, without effect, refused, or unknown.

Names and neutral values are those of llama.cpp (`src/llama-arch.cpp`, `src/llama-hparams.h`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assay.engine.loading.configuration_keys import is_neutral, short
from assay.engine.loading.gguf_architectures import READ as READ_BY_ARCHITECTURE
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.errors import UnsupportedError

_READ: Final = """
    embedding_length block_count context_length feed_forward_length attention.head_count
    attention.head_count_kv attention.key_length attention.value_length
    attention.layer_norm_epsilon attention.layer_norm_rms_epsilon attention.sliding_window
    rope.dimension_count rope.freq_base rope.scale_linear rope.scaling.type rope.scaling.factor
    rope.scaling.original_context_length rope.scaling.attn_factor rope.scaling.yarn_log_multiplier
    rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast
    rope.scaling.yarn_beta_slow
"""
READ: Final = frozenset(_READ.split())
"""Keys that `gguf` and `gguf_rope` read."""

HARMLESS: Final = frozenset({"vocab_size", "tensor_data_layout", "rope.scaling.finetuned"})
"""Keys without effect: the tokens give the vocabulary, the architecture the layout."""

NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "attention.causal": (True,),
    "attention.scale": (0.0,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.output_scale": (0.0, 1.0),
    "attention.temperature_scale": (0.0,),
    "attention.temperature_length": (0,),
    "attention.shared_kv_layers": (0,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "logit_scale": (0.0, 1.0),
    "embedding_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "use_parallel_residual": (False,),
    "hidden_activation": ("silu",),
    "pooling_type": (0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "expert_shared_count": (0,),
    "leading_dense_block_count": (0,),
    "nextn_predict_layers": (0,),
    "rescale_every_n_layers": (0,),
    "rope.scaling.alpha": (0.0,),
}
"""Keys that would change logits and are not implemented: only these values are accepted."""

# Every key below these names describes the computation.
_COMPUTATION: Final = ("attention.", "rope.", "ssm.", "expert", "swiglu", "kda.", "wkv.")


def check_gguf_keys(metadata: GgufMetadata, architecture: str) -> list[str]:
    """Refuse what would change results and is not implemented; a note names unknown keys."""
    where, prefix, unknown = metadata.where, f"{architecture}.", []
    # GPT-2 has no RoPE.
    read = READ if architecture != "gpt2" else {key for key in READ if not key.startswith("rope.")}
    read |= READ_BY_ARCHITECTURE.get(architecture, frozenset())
    for key in sorted(metadata):
        if not key.startswith(prefix):
            continue
        name = key.removeprefix(prefix)
        if name in read or name in HARMLESS:
            continue
        value = metadata.value(key)
        if name in NEUTRAL:
            if is_neutral(value, NEUTRAL[name]):
                continue
            expected = " or ".join(repr(one) for one in NEUTRAL[name])
            raise UnsupportedError(
                f"{where}: expected {key} {expected}, got {short(value)}",
                f"the engine does not implement {name}; without it logits would be wrong",
            )
        if name.startswith(_COMPUTATION):
            raise UnsupportedError(
                f"{where}: expected only known keys of attention, RoPE and experts, got {key}",
                f"the engine does not implement {name}; without it logits may be wrong",
            )
        unknown.append(key)
    return [f"{where}: unknown keys, not used: {', '.join(unknown)}"] if unknown else []
