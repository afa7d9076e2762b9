"""Rotary position embedding (RoPE), as a configuration describes it."""

from __future__ import annotations

from typing import Any

from assay import ops
from assay.engine.architectures.decoder import Rotary
from assay.engine.loading import ModelFiles
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Device, transfer

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


class RopeTables:
    """The cosines and sines of every position of a model's context, by layers that share them."""

    def __init__(self, files: ModelFiles, device: Device, positions: int) -> None:
        """Make no table yet."""
        self._files = files
        self._device = device
        self._positions = positions
        self._tables: list[tuple[Rotary, ops.RopeTable]] = []

    def table(self, rotary: Rotary) -> ops.RopeTable:
        """The table of this RoPE; layers with the same RoPE share one."""
        for known, table in self._tables:
            if known == rotary:
                return table
        made = self._make(rotary)
        self._tables.append((rotary, made))
        return made

    def _make(self, rotary: Rotary) -> ops.RopeTable:
        files, positions = self._files, self._positions
        dimensions, base, scaling = rotary.dimensions, rotary.base, rotary.scaling
        # GGUF files of the Llama family have the rows of each head permuted for adjacent pairs.
        interleaved = rotary.interleaved or files.rope_pairs == "interleaved"
        if scaling is None:
            name, values = "none", {}
        elif scaling["rope_type"] == "factors":
            factors = files.tensors[scaling["tensor"]].to_float32().astype(np.float64)
            return self._with_factors(dimensions, base, factors, 1.0, interleaved)
        elif scaling["rope_type"] == "longrope":
            factors = np.array(scaling["factors"], np.float64)
            factor = scaling["attention_factor"]
            return self._with_factors(dimensions, base, factors, factor, interleaved)
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
                device=self._device,
                **values,
            )
        except InputError as error:
            raise InputError(f"{files.name}: rope_scaling: {error.message}", error.hint) from None

    def _with_factors(
        self, dimensions: int, base: float, factors: Any, attention_factor: float, interleaved: bool
    ) -> ops.RopeTable:
        """A table whose frequencies are divided by factors, one for each pair."""
        frequencies = base ** (-np.arange(0, dimensions, 2) / dimensions) / factors
        angles = np.arange(self._positions)[:, None] * frequencies
        table = attention_factor * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        stored = transfer.store("rotation", self._device, table.astype(np.float32))
        return ops.RopeTable(stored, interleaved)
