"""The expected tensors of each architecture: Hugging Face names and shapes.

Files are validated against it, and synthetic models are generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from assay.engine.architectures.decoder import Shapes
from assay.engine.architectures.registry import ARCHITECTURES, ENCODERS
from assay.engine.loading.model_files import Tensor
from assay.errors import InputError, UnsupportedError, unknown_name

LM_HEAD: Final = "lm_head.weight"
MAX_PREDICTION_LAYERS: Final = 64
ROPE_FACTORS: Final = "rope_freqs.weight"
"""Factors that RoPE frequencies are divided by; GGUF files of Llama 3 have them."""

# Buffers that older checkpoints hold besides the weights: masks, and RoPE frequencies.
_BUFFERS: Final = re.compile(r"\.attn\.(masked_)?bias$|\.rotary_emb\.inv_freq$")


def expected_shapes(architecture: str, config: Mapping[str, Any]) -> Shapes:
    """Every tensor that a model of this configuration has; matrices are outputs by inputs."""
    if architecture in ENCODERS:
        return ENCODERS[architecture].encoder(config).tensors()
    return ARCHITECTURES[architecture].decoder(config).tensors()


def is_buffer(name: str) -> bool:
    """Whether a stored tensor is a buffer that follows from the configuration, not a weight."""
    return _BUFFERS.search(name) is not None


def _prediction_layers(layers: int, config: Mapping[str, Any]) -> tuple[str, ...]:
    """How the names of layers of multi-token prediction begin; they follow the last layer."""
    count = min(config.get("num_nextn_predict_layers") or 0, MAX_PREDICTION_LAYERS)
    return tuple(f"model.layers.{layers + index}." for index in range(count))


def check_tensors(
    where: str, architecture: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Refuse a file whose tensors are not those of its configuration."""
    # Before the shapes are listed: a configuration may claim any number of layers.
    one = ARCHITECTURES.get(architecture)
    layers = config["num_hidden_layers" if one is None else one.layers_key]
    if layers > len(tensors):
        raise InputError(
            f"{where}: expected tensors for {layers} layers, got {len(tensors)} tensors"
        )
    expected = expected_shapes(architecture, config)
    if ROPE_FACTORS in tensors and architecture != "gpt2":
        expected[ROPE_FACTORS] = (config["head_dim"] // 2,)
    for name, shape in expected.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise InputError(f'{where}: expected the tensor "{name}", got none')
        stored = tensor.shape[::-1] if tensor.transposed else tensor.shape
        if stored != shape:
            raise InputError(
                f'{where}: expected tensor "{name}" of shape {list(shape)}, got {list(stored)}',
                "the configuration says so",
            )
    extra = _prediction_layers(layers, config)
    for name in tensors:
        if name not in expected and not name.startswith(extra):
            near = unknown_name("tensor", name, expected).hint
            raise UnsupportedError(
                f'{where}: expected only the tensors of a {architecture} model, got "{name}"', near
            )
