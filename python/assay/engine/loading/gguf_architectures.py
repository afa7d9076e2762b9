"""What GGUF files of some architectures state beyond the Llama family, as config.json keys.

Names and rules are those of llama.cpp (`src/llama-arch.cpp`, `src/llama-model.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from assay.engine.loading.gguf_metadata import GgufMetadata

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
    return found


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


_MORE: Final[dict[str, Callable[[GgufMetadata, str], dict[str, Any]]]] = {
    "gemma2": _gemma,
    "gemma3": _gemma,
    "granite": _granite,
    "smollm3": _smollm3,
}

READ: Final[dict[str, frozenset[str]]] = {
    "gemma2": frozenset({"attn_logit_softcapping", "final_logit_softcapping"}),
    "gemma3": frozenset(
        {"attn_logit_softcapping", "final_logit_softcapping", "rope.freq_base_swa"}
    ),
    "granite": frozenset({"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}),
}
"""Keys that this module reads, below the name of the architecture."""


def more_configuration(metadata: GgufMetadata, name: str) -> dict[str, Any]:
    """What an architecture states besides, or instead of, the keys of the Llama family."""
    return _MORE[name](metadata, name) if name in _MORE else {}
