"""What the GPU kernels require of settings and models, checked before anything is built."""

from __future__ import annotations

from typing import Final

from assay._native import cuda_attention_limits
from assay.engine.core.knobs import Settings
from assay.engine.models.model_shape import ModelShape
from assay.errors import InputError, UnsupportedError
from assay.runtime import Device

KV_FORMAT: Final = "bf16"
HEAD_DIMS, BLOCK_TOKENS = cuda_attention_limits()


def check_settings(device: Device, settings: Settings) -> None:
    """Refuse knob values that the device has no kernel for."""
    if device.kind != "cuda":
        return
    if settings.kv_format != KV_FORMAT:
        raise InputError(
            f"kv_format: expected {KV_FORMAT} on {device}, got {settings.kv_format}",
            "GPU kernels read keys and values in the data type of the activations",
        )
    if settings.block_tokens % BLOCK_TOKENS:
        raise InputError(
            f"block_tokens: expected a multiple of {BLOCK_TOKENS} on {device}, "
            f"got {settings.block_tokens}"
        )


def check_shape(device: Device, shape: ModelShape) -> None:
    """Refuse a model whose head size the device has no attention kernel for."""
    if device.kind == "cuda" and shape.head_dim not in HEAD_DIMS:
        raise UnsupportedError(
            f"model: expected a head size of {', '.join(map(str, HEAD_DIMS))} on {device}, "
            f"got {shape.head_dim}",
            "use the device cpu",
        )
