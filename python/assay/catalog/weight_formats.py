"""Number formats of stored weights: bytes of an element, and the tensor cores that multiply them.

>>> stored_bytes("mxfp4"), compute_bits("mxfp4", {"gpu.rate_fp4": 0.0})
(0.53125, 16)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STORED: Final[Mapping[str, float]] = {
    "bf16": 2.0, "f16": 2.0, "f32": 4.0, "fp8": 1.0, "int8": 1.0,
    # Four bits and a scale of 8 bits for each 16 (NVFP4) or 32 elements (MXFP4).
    "nvfp4": 0.5625, "mxfp4": 0.53125,
    # Four bits, and a scale of 16 and a zero point of 4 bits for each group of 128.
    "int4": 0.5 + 20 / 128 / 8,
    # Four bits and a scale of 16 bits for each group of 32.
    "int4_32": 0.5625,
}  # fmt: skip
"""Bytes of a stored weight, scales included."""

_TENSOR_CORES: Final = {
    "fp8": ("gpu.rate_fp8", 8), "int8": ("gpu.rate_int8", 8),
    "nvfp4": ("gpu.rate_fp4", 4), "mxfp4": ("gpu.rate_fp4", 4),
}  # fmt: skip
"""Formats whose products tensor cores may compute, the rate that says so, and their bits."""


def stored_bytes(name: str) -> float:
    """Bytes of a stored weight of a format."""
    return STORED[name]


def has_tensor_cores(name: str) -> bool:
    """Whether some accelerators multiply a format as it is stored; others are unpacked."""
    return name in _TENSOR_CORES


def compute_bits(name: str, given: Mapping[str, float]) -> int:
    """Bits in which an accelerator with these values multiplies weights of a format."""
    rate, bits = _TENSOR_CORES.get(name, ("", 16))
    return bits if rate and given.get(rate, 0.0) > 1 else 16
