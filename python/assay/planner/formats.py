"""What a stored number format runs as: bytes of an element, and operands in the tensor cores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.catalog import weight_formats
from assay.errors import unknown_name
from assay.planner.own_engine import FUSED_ROWS

_ALIASES: Final = {
    "bfloat16": "bf16", "float16": "f16", "fp16": "f16", "half": "f16", "float32": "f32",
    "fp32": "f32", "float8": "fp8", "fp8_e4m3": "fp8", "f8_e4m3": "fp8", "e4m3": "fp8",
    "fp8_e5m2": "fp8", "awq": "int4", "gptq": "int4", "i8": "int8", "w8a8": "int8",
    "fp4": "nvfp4", "w4a16": "int4",
}  # fmt: skip

KV_FORMATS: Final = {"f32": 4.0, "bf16": 2.0, "f16": 2.0, "fp8": 1.0, "int8": 1.0}
"""Formats of the KV cache and the bytes of an element."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How weights of a format are stored and multiplied on a chip."""

    format: str
    weight_bytes: float
    compute_bits: int
    note: str = ""
    """Where operands are not in the stored format: what they are instead."""


def names() -> tuple[str, ...]:
    """Formats that weights may have."""
    from assay._native import BLOCK_FORMATS

    blocks = [name for name, block in BLOCK_FORMATS.items() if block.values > 1]
    return tuple(dict.fromkeys((*weight_formats.STORED, *blocks)))


def canonical(name: str) -> str:
    """A format by any of its usual names."""
    lower = name.strip().lower()
    # A mix of a GGUF file is mostly of one format: Q4_K_M of Q4_K.
    alias = re.sub(r"(?<=_k)_[sml]$", "", _ALIASES.get(lower, lower))
    if alias not in names():
        raise unknown_name("weight format", name, (*names(), *_ALIASES))
    return alias


def weight_execution(name: str, given: Mapping[str, float]) -> Execution:
    """What weights of a format run as on hardware with these given values."""
    format = canonical(name)
    if format in ("bf16", "f16"):
        return Execution(format, 2.0, 16)
    if format == "f32":
        note = "f32 weights: bytes count in full, products at the rate of 16-bit tensor cores"
        return Execution(format, 4.0, 16, note)
    stored = stored_bytes(format)
    bits = weight_formats.compute_bits(format, given)
    if bits < 16:
        return Execution(format, stored, bits)
    has_cores = weight_formats.has_tensor_cores(format)
    reason = "no tensor cores of that format" if has_cores else "a storage format"
    note = f"{format} weights ({reason}): read at {stored:.4g} bytes, multiplied in 16 bits"
    return Execution(format, stored, 16, note)


def own_execution(name: str, tokens: float, on_gpu: bool) -> Execution:
    """What weights of a format run as in the engine of Assay.

    Its kernels for few tokens multiply weights as they are stored. On a GPU more tokens have
    them dequantized to 16 bits first, in every step.
    """
    format = canonical(name)
    stored = stored_bytes(format)
    if not on_gpu or format in ("bf16", "f16") or tokens <= FUSED_ROWS:
        return Execution(format, stored, 16)
    note = f"{format} weights of more than {FUSED_ROWS} tokens: dequantized to 16 bits in each step"
    return Execution(format, stored, 16, note)


def stored_bytes(name: str) -> float:
    """Bytes of a stored weight, scales included."""
    format = canonical(name)
    if format in weight_formats.STORED:
        return weight_formats.stored_bytes(format)
    from assay._native import BLOCK_FORMATS

    block = BLOCK_FORMATS[format]
    return float(block.bytes / block.values)


def kv_format(name: str) -> str:
    """The name of a format of the KV cache in `KV_FORMATS`."""
    lower = name.strip().lower()
    alias = _ALIASES.get(lower, lower)
    if alias not in KV_FORMATS:
        raise unknown_name("KV-cache format", name, KV_FORMATS)
    return alias


def kv_bytes(name: str) -> float:
    """Bytes of an element of the KV cache."""
    return KV_FORMATS[kv_format(name)]
