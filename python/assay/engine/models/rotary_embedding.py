"""The rotation of queries and keys, as a configuration describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import ops
from assay.engine.loading import ModelFiles
from assay.errors import InputError, UnsupportedError
from assay.lazy_import import LazyModule
from assay.runtime import Device, launching

if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy", globals(), "np")

_WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("none", {}),
    "linear": ("linear", {"factor": "factor"}),
    "yarn": (
        "yarn",
        {
            "factor": "factor",
            "original_max_position_embeddings": "original_context",
            "beta_fast": "beta_fast",
            "beta_slow": "beta_slow",
        },
    ),
    "llama3": (
        "llama3",
        {
            "factor": "factor",
            "original_max_position_embeddings": "original_context",
            "low_freq_factor": "low_frequency",
            "high_freq_factor": "high_frequency",
        },
    ),
}
"""Scalings by the name configurations give them: our name, and our names of what they are told."""


def rotation(files: ModelFiles, device: Device, positions: int) -> ops.RopeTable:
    """The turns of every position that the model may be asked for."""
    config = files.config
    dimensions, base = config["head_dim"], config["rope_theta"]
    interleaved = files.rope_pairs == "interleaved"
    scaling: dict[str, Any] = config["rope_scaling"] or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "factors":
        factors = files.tensors[scaling["tensor"]].to_float32().astype(np.float64)
        return _divided(dimensions, positions, base, factors, interleaved, device)
    if kind not in _WORDS:
        raise UnsupportedError(
            f'{files.name}: expected a known rope_type, got "{kind}"',
            f"one of: {', '.join(_WORDS)}",
        )
    name, words = _WORDS[kind]
    values = {ours: float(scaling[theirs]) for theirs, ours in words.items() if theirs in scaling}
    try:
        return ops.rope_table(
            dimensions,
            positions,
            base,
            scaling=name,
            interleaved=interleaved,
            device=device,
            **values,
        )
    except InputError as error:
        raise InputError(f"{files.name}: rope_scaling: {error.message}", error.hint) from None


def _divided(
    dimensions: int, positions: int, base: float, factors: Any, interleaved: bool, device: Device
) -> ops.RopeTable:
    """Turns whose frequencies are divided by factors that the file gives, one for each pair."""
    frequencies = base ** (-np.arange(0, dimensions, 2) / dimensions) / factors
    angles = np.arange(positions)[:, None] * frequencies
    turns = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    return ops.RopeTable(launching.store("rotation", device, turns), interleaved)
