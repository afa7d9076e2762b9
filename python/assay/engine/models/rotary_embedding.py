"""Rotary position embedding (RoPE), as a configuration describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import ops
from assay.engine.loading import ModelFiles
from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.runtime import Device, transfer

if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy", globals(), "np")

_SCALINGS: dict[str, tuple[str, dict[str, str]]] = {
    "linear": ("linear", {"factor": "factor"}),
    "yarn": (
        "yarn",
        {
            "factor": "factor",
            "original_max_position_embeddings": "original_context",
            "beta_fast": "beta_fast",
            "beta_slow": "beta_slow",
            "attention_factor": "attention_factor",
            "truncate": "truncate",
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
"""RoPE scalings by their configuration name: our name, and our names of their parameters."""


def rope_table(files: ModelFiles, device: Device, positions: int) -> ops.RopeTable:
    """The cosines and sines of every position of the model's context."""
    config = files.config
    dimensions, base = config["head_dim"], config["rope_theta"]
    interleaved = files.rope_pairs == "interleaved"
    scaling: dict[str, Any] | None = config["rope_scaling"]
    if scaling is None:
        name, values = "none", {}
    elif scaling["rope_type"] == "factors":
        factors = files.tensors[scaling["tensor"]].to_float32().astype(np.float64)
        return _table_with_factors(dimensions, positions, base, factors, interleaved, device)
    else:
        # The loader has checked the type and filled in every parameter.
        name, parameters = _SCALINGS[scaling["rope_type"]]
        values = {ours: float(scaling[theirs]) for theirs, ours in parameters.items()}
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


def _table_with_factors(
    dimensions: int, positions: int, base: float, factors: Any, interleaved: bool, device: Device
) -> ops.RopeTable:
    """A table whose frequencies are divided by the file's factors, one for each pair."""
    frequencies = base ** (-np.arange(0, dimensions, 2) / dimensions) / factors
    angles = np.arange(positions)[:, None] * frequencies
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    return ops.RopeTable(transfer.store("rotation", device, table), interleaved)
