"""The number format in which a model was published: what its files hold, and which weights.

>>> read_checkpoint({"quantization_config": {"quant_method": "fp8"}}, "a configuration").format
'fp8'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.catalog.weight_formats import compute_bits, stored_bytes

_DTYPES: Final = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
_QUANTIZED: Final = {"fp8": "fp8", "awq": "int4", "gptq": "int4", "mxfp4": "mxfp4"}
"""Formats by `quant_method` of a configuration."""
_KEPT: Final = ("modules_to_not_convert", "ignore", "ignored_layers")
"""Fields that list the parts of a model which a quantization leaves as they are."""
_GROUPED: Final = 32
"""Weights of a group with one scale in the packed INT4 format."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The format of a model's files."""

    format: str
    """bf16, fp8, mxfp4, int4_32 ...; empty where nothing states it."""
    source: str
    experts_only: bool = False
    """Whether only routed experts have it; the rest has 16 bits."""

    @property
    def is_quantized(self) -> bool:
        """Whether weights have fewer than 16 bits."""
        return bool(self.format) and stored_bytes(self.format) < 2

    @property
    def text(self) -> str:
        """The format in words."""
        name = (self.format or "bf16").partition("_")[0].upper()
        return f"{name} experts, the rest in 16 bits" if self.experts_only else f"{name} weights"

    def serving_values(self, given: Mapping[str, float]) -> dict[str, float]:
        """Values of the graph that serve the files as they are, on an accelerator with `given`."""
        name = self.format or "bf16"
        wide = "bf16" if self.experts_only else name
        return {
            "serving.weight_bytes": stored_bytes(wide),
            "serving.compute_bits": float(compute_bits(wide, given)),
            "serving.expert_bytes": stored_bytes(name),
            "serving.expert_bits": float(compute_bits(name, given)),
        }


def read_checkpoint(config: Mapping[str, Any], source: str) -> Checkpoint:
    """The format that a configuration states."""
    text = config.get("text_config")
    parts = (config, text if isinstance(text, Mapping) else {})
    for part in parts:
        quantization = part.get("quantization_config")
        if isinstance(quantization, Mapping) and (name := _quantized(quantization)):
            return Checkpoint(name, source, _leaves_attention(quantization))
    for part in parts:
        dtype = str(part.get("torch_dtype") or part.get("dtype") or "")
        if dtype in _DTYPES:
            return Checkpoint(_DTYPES[dtype], source)
    return Checkpoint("", source)


def _quantized(quantization: Mapping[str, Any]) -> str:
    method = str(quantization.get("quant_method", ""))
    if method != "compressed-tensors":
        return _QUANTIZED.get(method, "")
    groups = quantization.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            continue
        bits, kind = weights.get("num_bits"), weights.get("type")
        if (bits, kind) == (4, "int"):
            return "int4_32" if weights.get("group_size") == _GROUPED else "int4"
        if bits == 8:
            return "fp8" if kind == "float" else "int8"
    return ""


def _leaves_attention(quantization: Mapping[str, Any]) -> bool:
    """Whether the parts that stay as they are include attention: experts are what is left."""
    kept = [str(name) for field in _KEPT for name in quantization.get(field) or ()]
    return any("self_attn" in name for name in kept)
