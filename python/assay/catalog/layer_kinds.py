"""Kinds of a model's layers in order: what mixes tokens, what follows, and whether a window bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.catalog.configs import LINEAR_KINDS


def mixers(shapes: Mapping[str, float], config: Mapping[str, Any]) -> list[str]:
    """By layer: attention, mla, or linear (state space, gated delta rule)."""
    layers = int(shapes["layers"])
    full = "mla" if shapes["latent.width"] else "attention"
    kinds = _text(config).get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return ["linear" if kind in LINEAR_KINDS else full for kind in kinds]
    attended = _text(config).get("attn_layer_indices")
    if shapes["linear_share"] and isinstance(attended, list):
        return [full if index in attended else "linear" for index in range(layers)]
    return ["linear" if flag else full for flag in _pattern(layers, shapes["linear_share"])]


def mlps(shapes: Mapping[str, float], config: Mapping[str, Any]) -> list[str]:
    """By layer: dense or moe."""
    config, layers, dense = _text(config), int(shapes["layers"]), int(shapes["dense_layers"])
    if not shapes["experts"]:
        return ["dense"] * layers
    frequency = config.get("moe_layer_freq")
    if isinstance(frequency, list) and len(frequency) == layers:
        return ["moe" if entry else "dense" for entry in frequency]
    listed = config.get("mlp_only_layers")
    if isinstance(listed, list) and listed:
        return ["dense" if i in listed else "moe" for i in range(layers)]
    step = int(config.get("decoder_sparse_step") or config.get("interleave_moe_layer_step") or 1)
    if step > 1:
        return ["dense" if (i + 1) % step else "moe" for i in range(layers)]
    return ["dense" if i < dense else "moe" for i in range(layers)]


def attention_kinds(shapes: Mapping[str, float], config: Mapping[str, Any]) -> list[str]:
    """By layer what its configuration calls its attention; empty where it says nothing."""
    config, layers = _text(config), int(shapes["layers"])
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return [str(kind) for kind in kinds]
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 1:
        return ["windowed" if (i + 1) % pattern else "full" for i in range(layers)]
    return [""] * layers


def windowed(shapes: Mapping[str, float], config: Mapping[str, Any]) -> list[bool]:
    """By layer whether a sliding window bounds its attention, as many as `window_share` says."""
    layers, share = int(shapes["layers"]), shapes["window_share"]
    if not shapes["window"] or not share:
        return [False] * layers
    kinds = _text(config).get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return [kind in ("sliding_attention", "chunked_attention") for kind in kinds]
    return _pattern(layers, share)


def has_rope(shapes: Mapping[str, float], config: Mapping[str, Any]) -> bool:
    """Whether attention rotates queries and keys: learned positions and ALiBi take its place."""
    return not shapes["positions"] and _text(config).get("model_type") not in ("bloom", "mpt")


def _pattern(layers: int, share: float) -> list[bool]:
    """True for a share of the layers, all but the last of each group."""
    others = layers - round(share * layers)
    if not others:
        return [True] * layers
    return [bool((i + 1) % (layers // others)) for i in range(layers)]


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config
