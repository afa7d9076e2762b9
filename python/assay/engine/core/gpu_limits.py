"""What a device's kernels require of settings and models, checked before anything is built."""

from __future__ import annotations

from typing import Final

from assay.engine.core.knobs import Settings
from assay.engine.models.model_shape import ModelShape
from assay.errors import InputError, UnsupportedError
from assay.runtime import Device

LATENT_RANK_MULTIPLE: Final = 64
LATENT_WIDTH_MULTIPLE: Final = 32
MAX_LATENT_WIDTH: Final = 576
"""What the kernel of latent attention requires of the rows of its cache."""


def check_settings(device: Device, settings: Settings) -> None:
    """Refuse knob values that the device has no kernel for."""
    kv_formats = device.capabilities.kv_formats
    if settings.kv_format not in kv_formats:
        raise InputError(
            f"kv_format: expected {' or '.join(kv_formats)} on {device}, got {settings.kv_format}",
            "GPU kernels read keys and values in the data type of the activations, or of 8 bits",
        )
    multiple = device.capabilities.attention_block_multiple
    if settings.block_tokens % multiple:
        raise InputError(
            f"block_tokens: expected a multiple of {multiple} on {device}, "
            f"got {settings.block_tokens}"
        )


def check_shape(device: Device, shape: ModelShape) -> None:
    """Refuse a model whose head size the device has no attention kernel for."""
    head_dims = device.capabilities.attention_head_dims
    if (latent := shape.latent) is not None:
        width = latent.rank + latent.rope_dim
        fits = not latent.rank % LATENT_RANK_MULTIPLE and not width % LATENT_WIDTH_MULTIPLE
        if head_dims is not None and (not fits or width > MAX_LATENT_WIDTH):
            raise UnsupportedError(
                f"model: expected latents in multiples of {LATENT_RANK_MULTIPLE}, with the shared "
                f"key of {LATENT_WIDTH_MULTIPLE}, up to {MAX_LATENT_WIDTH} on {device}, "
                f"got {latent.rank} and {latent.rope_dim}",
                "use the device cpu",
            )
        return
    if shape.state is None and head_dims is not None and shape.head_dim not in head_dims:
        raise UnsupportedError(
            f"model: expected a head size of {', '.join(map(str, head_dims))} on {device}, "
            f"got {shape.head_dim}",
            "use the device cpu",
        )
