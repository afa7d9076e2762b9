"""How many layers of a model must stay in host memory for the rest to fit a device."""

from __future__ import annotations

from typing import Final

from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading import ModelFiles
from assay.engine.models.layer_stream import NUM_SLOTS
from assay.errors import InputError, OutOfMemoryError

WEIGHTS_SHARE: Final = 0.85
"""The share of device memory for weights; the rest is for the KV cache and the step's buffers."""


def num_layers(files: ModelFiles) -> int:
    """Layers of the model of these files."""
    return len(ARCHITECTURES[files.architecture].decoder(files.config).blocks)


def layers_to_offload(layer_bytes: float, other_bytes: float, layers: int, room: float) -> int:
    """The fewest layers to offload so that the others, `other_bytes` and the slots fit; -1 if none.

    >>> layers_to_offload(10.0, 5.0, 8, 45.0)
    6
    >>> layers_to_offload(10.0, 5.0, 8, 90.0)
    0
    >>> layers_to_offload(10.0, 5.0, 8, 24.0)
    -1
    """
    if other_bytes + layers * layer_bytes <= room:
        return 0
    for count in range(1, layers + 1):
        slots = min(count, NUM_SLOTS)
        if other_bytes + (layers - count + slots) * layer_bytes <= room:
            return count
    return -1


def check_layers(files: ModelFiles, offload_layers: int) -> None:
    """Refuse to offload more layers than there are."""
    if offload_layers and offload_layers > (layers := num_layers(files)):
        raise InputError(
            f"offload_layers: expected at most the model's {layers}, got {offload_layers}"
        )


def explained(files: ModelFiles, capacity: int, error: OutOfMemoryError) -> OutOfMemoryError:
    """The error of weights that do not fit a device, with how many layers to offload."""
    layers = num_layers(files)
    matrices = [tensor for tensor in files.tensors.values() if len(tensor.shape) > 1]
    total = sum(matrix.bytes.nbytes for matrix in matrices)
    # Matrices outside the layers are the embedding and the output head.
    others = sum(matrix.bytes.nbytes for matrix in matrices if not _is_in_a_layer(matrix.name))
    layer = (total - others) / layers
    count = layers_to_offload(layer, others, layers, WEIGHTS_SHARE * capacity)
    text = (
        f"{files.name}: expected {_gigabytes(total)} GB of weights in the {_gigabytes(capacity)} GB "
        f"of the device, got: {error.message}"
    )
    if count < 0:
        least = others + min(NUM_SLOTS, layers) * layer
        return OutOfMemoryError(
            text,
            f"even with all {layers} layers in host memory {_gigabytes(least)} GB are needed on the "
            "device: use a smaller model, or weights of fewer bits",
        )
    return OutOfMemoryError(
        text,
        f"offload_layers={max(count, 1)} keeps that many of {layers} layers in host memory; weights of "
        "fewer bits (weight_format) are faster",
    )


def _is_in_a_layer(name: str) -> bool:
    """Whether a tensor belongs to a numbered layer, as in model.layers.3.mlp.up_proj.weight."""
    return any(part.isdigit() for part in name.split("."))


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g}"
