"""The encoder: three convolutions over raw samples, then layers of attention over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.lazy_import import np
from assay.runtime import Device, transfer
from assay.speech.moonshine.files import MoonshineFile
from assay.speech.moonshine.layers import (
    Linear,
    attend,
    heads_of,
    load_linear,
    normed,
    quantize,
    rotated,
    rotations,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

LAYERS: Final = 6
LEAST_SAMPLES: Final = 127 + 64 * (7 - 1 + 3 * 2)
"""Samples that give one state: what the three convolutions span."""
_EPSILON: Final = 1e-5


class EncoderLayer(NamedTuple):
    """Self-attention and MLP, each added to its input."""

    norm: Floats
    qkv: Linear
    output: Linear
    mlp_norm: Floats
    up: Linear
    down: Linear
    device: Device

    def forward(self, x: Floats, turns: tuple[Floats, Floats], label: str) -> Floats:
        """Rows of the next layer."""
        inner = quantize(normed(x, self.norm))
        query, key, value = heads_of(self.qkv.forward(inner, f"{label}.qkv"), 3)
        query, key = rotated(query, turns), rotated(key, turns)
        attended = attend(query, key, value, self.device, f"{label}.scores")
        x = x + self.output.forward(quantize(attended), f"{label}.output")
        inner = quantize(normed(x, self.mlp_norm))
        up = transfer.store(label, self.device, self.up.forward(inner, f"{label}.up"))
        activated = ops.gelu(up, label=f"{label}.gelu").to_numpy()
        return x + self.down.forward(quantize(activated), f"{label}.down")


class Encoder:
    """The encoder of a model."""

    def __init__(self, file: MoonshineFile, device: Device) -> None:
        """Load it."""
        self._device = device
        self._kernels = [
            transfer.store(name, device, np.ascontiguousarray(file.convolution(name)))
            for name in ("conv1", "conv2", "conv3")
        ]
        self._biases = [
            transfer.store(name, device, file.vector(f"{name}.bias")) for name in ("conv2", "conv3")
        ]
        self._scale = transfer.store("scale", device, file.vector("onnx::Mul_1488").reshape(-1))
        self._shift = transfer.store("shift", device, file.vector("onnx::Add_1489").reshape(-1))
        self._layers = tuple(self._layer(file, f"layers.{index}") for index in range(LAYERS))
        self._norm = file.vector("layer_norm.weight")

    def _layer(self, file: MoonshineFile, name: str) -> EncoderLayer:
        def linear(module: str, parts: str, *, bias: bool = False) -> Linear:
            return load_linear(file, f"{name}.{module}", parts, self._device, bias=bias)

        return EncoderLayer(
            norm=file.vector(f"{name}.input_layernorm.weight"),
            qkv=linear("self_attn", "q_proj k_proj v_proj"),
            output=linear("self_attn", "dense"),
            mlp_norm=file.vector(f"{name}.post_attention_layernorm.weight"),
            up=linear("mlp", "fc1", bias=True),
            down=linear("mlp", "fc2", bias=True),
            device=self._device,
        )

    def forward(self, samples: Floats) -> Floats:
        """States of samples at 16 kHz, about 42 a second."""
        x = transfer.store("samples", self._device, np.ascontiguousarray(samples[None, None]))
        x = ops.conv1d(x, self._kernels[0], stride=64, activation="tanh", label="conv1")
        x = ops.group_norm(x, 1, self._scale, self._shift, _EPSILON, label="groupnorm")
        x = ops.conv1d(
            x, self._kernels[1], self._biases[0], stride=3, activation="gelu", label="conv2"
        )
        x = ops.conv1d(
            x, self._kernels[2], self._biases[1], stride=2, activation="gelu", label="conv3"
        )
        states = np.ascontiguousarray(x.to_numpy()[0].T)
        turns = rotations(0, len(states))
        for index, layer in enumerate(self._layers):
            states = layer.forward(states, turns, f"encoder.{index}")
        return normed(states, self._norm)
