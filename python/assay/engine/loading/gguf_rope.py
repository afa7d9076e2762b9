"""RoPE scaling of a GGUF file, in the keys of `rope_scaling`, as llama.cpp computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.gguf_names import LONG_FACTORS, SHORT_FACTORS
from assay.engine.loading.model_files import Tensor
from assay.engine.loading.rope_scaling import yarn_attention_factor
from assay.errors import UnsupportedError

if TYPE_CHECKING:
    from assay._native import StoredTensor

_TYPES: Final = ("none", "linear", "yarn")


def gguf_rope_scaling(metadata: GgufMetadata, architecture: str) -> dict[str, Any] | None:
    """The scaling that `rope_scaling.standard_scaling` completes, or None for plain RoPE."""
    prefix = f"{architecture}.rope.scaling"
    factor = metadata.get(f"{prefix}.factor", float)
    if factor is None:
        # The key of the first GGUF files.
        factor = metadata.get(f"{architecture}.rope.scale_linear", float)
    # llama.cpp reads a factor without a type as linear, and a factor of 0 as none.
    kind = metadata.get(f"{prefix}.type", str) or ("linear" if factor else "none")
    if kind not in _TYPES:
        raise UnsupportedError(
            f'{metadata.where}: expected {prefix}.type "none", "linear" or "yarn", got "{kind}"'
        )
    attention_factor = metadata.get(f"{prefix}.attn_factor", float)
    if kind != "yarn":
        _only(metadata, f"{prefix}.attn_factor", 1.0, attention_factor)
        if kind == "none":
            return None
    if factor is None:
        factor = metadata.require(f"{prefix}.factor", float)
    if kind == "linear":
        return {"rope_type": kind, "factor": factor or 1.0}
    # llama.cpp replaces yarn_attn_factor, and transformers gives the same name another meaning.
    for name in ("yarn_attn_factor", "yarn_ext_factor"):
        _only(metadata, f"{prefix}.{name}", 1.0, metadata.get(f"{prefix}.{name}", float))
    sharpened = yarn_attention_factor(factor)
    if all_dim := metadata.get(f"{prefix}.yarn_log_multiplier", float):
        sharpened /= yarn_attention_factor(factor, all_dim)
    scaling = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": metadata.get(f"{prefix}.original_context_length", int),
        "attention_factor": sharpened * (1.0 if attention_factor is None else attention_factor),
        "beta_fast": metadata.get(f"{prefix}.yarn_beta_fast", float),
        "beta_slow": metadata.get(f"{prefix}.yarn_beta_slow", float),
    }
    return {key: value for key, value in scaling.items() if value is not None}


def gguf_latent_scaling(metadata: GgufMetadata, architecture: str) -> dict[str, Any] | None:
    """The scaling of latent attention, whose factor of scores has a key of its own.

    Files state a tenth of `mscale_all_dim`. llama.cpp takes `mscale` as the same, or as 1 where that
    is 1: cosines and sines keep their length either way.
    """
    scaling = gguf_rope_scaling(metadata, architecture)
    if scaling is None or scaling["rope_type"] != "yarn":
        return scaling
    tenth = metadata.get(f"{architecture}.rope.scaling.yarn_log_multiplier", float)
    if not tenth:
        return scaling
    name = f"{architecture}.rope.scaling.attn_factor"
    _only(metadata, name, 1.0, metadata.get(name, float))
    del scaling["attention_factor"]
    return scaling | {"mscale": 10.0 * tenth, "mscale_all_dim": 10.0 * tenth}


def longrope_scaling(
    metadata: GgufMetadata, architecture: str, stored: Mapping[str, StoredTensor]
) -> dict[str, Any] | None:
    """The scaling of a file that has factors for short and for long contexts, or None."""
    if LONG_FACTORS not in stored or SHORT_FACTORS not in stored:
        return None
    prefix = f"{architecture}.rope.scaling"
    factor = metadata.get(f"{prefix}.attn_factor", float)
    lists = {
        key: Tensor.stored(name, stored[name]).to_float32().reshape(-1).tolist()
        for key, name in (("short_factor", SHORT_FACTORS), ("long_factor", LONG_FACTORS))
    }
    return {
        "rope_type": "longrope",
        "original_max_position_embeddings": metadata.require(
            f"{prefix}.original_context_length", int
        ),
        "attention_factor": 1.0 if factor is None else factor,
        **lists,
    }


def _only(metadata: GgufMetadata, key: str, expected: float, got: float | None) -> None:
    if got is not None and got != expected:
        raise UnsupportedError(f"{metadata.where}: expected {key} {expected}, got {got}")
