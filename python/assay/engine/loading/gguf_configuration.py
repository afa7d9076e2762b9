"""The metadata of a GGUF file in the keys of config.json, and the `model_type` that it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading.gguf_architectures import SIGMOID, WHOLE, more_configuration
from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.gguf_rope import gguf_rope_scaling, longrope_scaling
from assay.errors import UnsupportedError

if TYPE_CHECKING:
    from assay._native import StoredTensor

NAMES: Final[dict[str, str]] = {}
"""Architectures by their names in GGUF files; the first, where several have one name."""
for _name, _one in ARCHITECTURES.items():
    if _one.gguf is not None:
        NAMES.setdefault(_one.gguf, _name)

_ANY: Final = ("head_dim", "sliding_window", "layer_types", "bos_token_id", "eos_token_id")
"""Keys of every architecture but GPT-2, besides those of its schema."""


def configuration(
    metadata: GgufMetadata, stated: str, stored: Mapping[str, StoredTensor]
) -> tuple[str, dict[str, Any]]:
    """The `model_type`, and the keys that it reads."""
    common = {
        "vocab_size": metadata.count("tokenizer.ggml.tokens"),
        "tie_word_embeddings": "output.weight" not in stored,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id", int),
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id", int),
    }
    found = WHOLE[stated](metadata, stated) if stated in WHOLE else _llama(metadata, stated, stored)
    architecture = _architecture(metadata, stated, found)
    known = ARCHITECTURES[architecture].schema.keys
    given = {**common, **found}
    return architecture, {key: value for key, value in given.items() if key in known or key in _ANY}


def _architecture(metadata: GgufMetadata, stated: str, found: Mapping[str, Any]) -> str:
    """The architecture, where files of several have one name."""
    if stated == "llama" and "num_local_experts" in found:
        return "mixtral"
    if stated == "llama" and found["sliding_window"] is not None:
        return "mistral"
    if stated == "deepseek2" and found["scoring_func"] == SIGMOID:
        return "deepseek_v3"
    return NAMES[stated]


def _llama(
    metadata: GgufMetadata, architecture: str, stored: Mapping[str, StoredTensor]
) -> dict[str, Any]:
    """The keys of the Llama family."""

    def key(name: str) -> str:
        return f"{architecture}.{name}"

    heads = metadata.require(key("attention.head_count"), int)
    width = metadata.require(key("embedding_length"), int)
    head_dim = metadata.get(key("attention.key_length"), int) or width // max(heads, 1)
    values = metadata.get(key("attention.value_length"), int)
    if values is not None and values != head_dim:
        raise UnsupportedError(
            f"{metadata.where}: expected {key('attention.value_length')} {head_dim}, "
            f"the size of a head, got {values}"
        )
    # Defaults of the format: as many KV heads as query heads, and a RoPE base of 10000.
    kv_heads = metadata.get(key("attention.head_count_kv"), int)
    base = metadata.get(key("rope.freq_base"), float)
    # llama.cpp reads a window of 0 as none.
    window = metadata.get(key("attention.sliding_window"), int) or None
    more = more_configuration(metadata, architecture)
    scaling = longrope_scaling(metadata, architecture, stored)
    if scaling is None:
        scaling = gguf_rope_scaling(metadata, architecture)
    schema = ARCHITECTURES[NAMES[architecture]].schema
    layer_norm = not {"rms_norm_eps"} & schema.keys
    epsilon = "layer_norm_epsilon" if layer_norm else "layer_norm_rms_epsilon"
    return {
        "hidden_size": width,
        "intermediate_size": metadata.require(key("feed_forward_length"), int),
        "num_hidden_layers": metadata.require(key("block_count"), int),
        "num_attention_heads": heads,
        "num_key_value_heads": heads if kv_heads is None else kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": metadata.require(key("context_length"), int),
        **dict.fromkeys(
            ("rms_norm_eps", "layer_norm_eps", "norm_epsilon"),
            metadata.require(key(f"attention.{epsilon}"), float),
        ),
        "hidden_act": "silu",
        "rope_theta": 10000.0 if base is None else base,
        "rope_scaling": scaling,
        "attention_bias": "blk.0.attn_q.bias" in stored,
        "mlp_bias": False,
        "sliding_window": window,
        "use_sliding_window": window is not None,
        **_rotated(metadata, architecture, head_dim),
        **more,
    }


def _rotated(metadata: GgufMetadata, architecture: str, head_dim: int) -> dict[str, Any]:
    """The part of a head that is rotated, where the architecture may have less than all."""
    key = f"{architecture}.rope.dimension_count"
    dimensions = metadata.get(key, int)
    is_part = dimensions is not None and dimensions != head_dim
    if "partial_rotary_factor" in ARCHITECTURES[NAMES[architecture]].schema.keys:
        share = 1.0 if dimensions is None else dimensions / max(head_dim, 1)
        return {"partial_rotary_factor": share}
    if is_part:
        raise UnsupportedError(
            f"{metadata.where}: expected {key} {head_dim}, the size of a head, got {dimensions}"
        )
    return {}
