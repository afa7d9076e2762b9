"""The encoder: three convolutions over raw samples, then layers of attention over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.lazy_import import np
from assay.runtime import Array, Device, transfer
from assay.speech.layers import Linear, Mlp, Norm, heads_of, rounded, view_as
from assay.speech.moonshine.files import MoonshineFile
from assay.speech.moonshine.layers import HEADS, LAYERS, SCALE, Loader, rotations

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

LEAST_SAMPLES: Final = 127 + 64 * (7 - 1 + 3 * 2)
"""Samples that give one state: what the three convolutions span."""
_EPSILON: Final = 1e-5
_HEAD_DIM: Final = 64
"""Of padded heads: two tiles of AMX."""


class EncoderLayer(NamedTuple):
    """Self-attention and MLP, each added to its input."""

    norm: Norm
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    mlp: Mlp

    def forward(self, x: Array, positions: Array, table: ops.RopeTable, label: str) -> Array:
        """Rows of the next layer."""
        normed = self.norm.forward(x, f"{label}.norm")
        query, key, value = (
            heads_of(linear.forward(normed, f"{label}.{name}"), HEADS)
            for name, linear in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        query, key = (
            ops.rope(heads, positions, table, label=f"{label}.rope") for heads in (query, key)
        )
        key, value = (rounded(heads, "bf16", f"{label}.rounded") for heads in (key, value))
        attended = ops.attention(query, key, value, False, scale=SCALE, label=f"{label}.scores")
        attended = view_as(attended, (x.shape[0], self.output.weights.shape[1]))
        x = self.output.forward(attended, f"{label}.output", residual=x)
        return self.mlp.forward(x, label)


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
        loader = Loader(file, device, _HEAD_DIM)
        self._layers = tuple(self._layer(loader, f"layers.{index}") for index in range(LAYERS))
        self._norm = loader.norm("layer_norm")
        self._table: ops.RopeTable | None = None

    @staticmethod
    def _layer(loader: Loader, name: str) -> EncoderLayer:
        attention = f"{name}.self_attn"
        return EncoderLayer(
            norm=loader.norm(f"{name}.input_layernorm"),
            query=loader.heads(attention, "q_proj"),
            key=loader.heads(attention, "k_proj"),
            value=loader.heads(attention, "v_proj"),
            output=loader.from_heads(f"{attention}.dense"),
            mlp=Mlp(
                loader.norm(f"{name}.post_attention_layernorm"),
                loader.linear(f"{name}.mlp.fc1"),
                loader.linear(f"{name}.mlp.fc2"),
            ),
        )

    def forward(self, samples: Floats) -> Array:
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
        states = transfer.store("states", self._device, np.ascontiguousarray(x.to_numpy()[0].T))
        count = states.shape[0]
        positions = transfer.store("positions", self._device, np.arange(count, dtype=np.int32))
        if self._table is None or self._table.positions < count:
            self._table = rotations(count, self._device)
        for index, layer in enumerate(self._layers):
            states = layer.forward(states, positions, self._table, f"encoder.{index}")
        return self._norm.forward(states, "encoder.norm")
