"""What the kernels of GPUs ask of settings and models, said before anything is built for them."""

from __future__ import annotations

from typing import Final

from assay import _native
from assay.engine.core.knobs import Settings
from assay.engine.models.model_shape import ModelShape
from assay.errors import InputError, UnsupportedError
from assay.runtime import Device

KV_FORMAT: Final = "bf16"
HEADS, BLOCK_TOKENS = _native.cuda_attention_limits()


def check_settings(device: Device, settings: Settings) -> None:
    """Refuse positions of knobs that no kernel of the device is written for."""
    if device.kind != "cuda":
        return
    if settings.kv_format != KV_FORMAT:
        raise InputError(
            f"kv_format: expected {KV_FORMAT} on {device}, got {settings.kv_format}",
            "kernels of GPUs read keys and values of the type of activations",
        )
    if settings.block_tokens % BLOCK_TOKENS:
        raise InputError(
            f"block_tokens: expected a multiple of {BLOCK_TOKENS} on {device}, "
            f"got {settings.block_tokens}"
        )


def check_shape(device: Device, shape: ModelShape) -> None:
    """Refuse a model whose heads no kernel of the device is written for."""
    if device.kind == "cuda" and shape.head_dim not in HEADS:
        raise UnsupportedError(
            f"model: expected heads of {', '.join(map(str, HEADS))} numbers on {device}, "
            f"got {shape.head_dim}",
            "use the device cpu",
        )
