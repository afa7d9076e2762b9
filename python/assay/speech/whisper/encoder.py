"""The encoder: two convolutions over the features, then layers of attention over 30 seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.errors import ShapeError
from assay.lazy_import import np
from assay.runtime import Array, transfer
from assay.speech.whisper.layers import Linear, Loader, Mlp, Norm, heads_of, view_as

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_KERNEL: Final = 3
"""Frames under each of the convolutions' kernels."""


class EncoderLayer(NamedTuple):
    """Self-attention and MLP, each added to its input."""

    norm: Norm
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    mlp: Mlp
    heads: int

    def forward(self, x: Array, label: str) -> Array:
        """Rows of the next layer."""
        normed = self.norm.forward(x, f"{label}.attention.norm")
        query, key, value = (
            heads_of(linear.forward(normed, f"{label}.attention.{name}"), self.heads)
            for name, linear in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        attended = ops.attention(query, key, value, False, label=f"{label}.attention.scores")
        x = self.output.forward(view_as(attended, x.shape), f"{label}.attention.output", residual=x)
        return self.mlp.forward(x, label)


class Encoder:
    """The encoder of a model."""

    def __init__(self, loader: Loader) -> None:
        """Load it."""
        dimensions = loader.files.dimensions
        self.device: Final = loader.device
        self.mels: Final = dimensions.mels
        self.context: Final = dimensions.audio_context
        self._first = loader.convolution("encoder.conv1")
        self._second = loader.convolution("encoder.conv2")
        self._positions = loader.vector("encoder.positional_embedding")
        self._layers = tuple(
            self._layer(loader, f"encoder.blocks.{index}", dimensions.audio_heads)
            for index in range(dimensions.audio_layers)
        )
        self._norm = loader.norm("encoder.ln_post")

    @staticmethod
    def _layer(loader: Loader, name: str, heads: int) -> EncoderLayer:
        def third(place: int) -> Linear:
            def part(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
                rows = values.shape[0] // 3
                return values[place * rows : (place + 1) * rows]

            return loader.linear(f"{name}.attn.qkv", part)

        return EncoderLayer(
            norm=loader.norm(f"{name}.attn_ln"),
            query=third(0),
            key=third(1),
            value=third(2),
            output=loader.linear(f"{name}.attn.out"),
            mlp=Mlp(
                loader.norm(f"{name}.mlp_ln"),
                loader.linear(f"{name}.mlp.0"),
                loader.linear(f"{name}.mlp.2"),
            ),
            heads=heads,
        )

    @property
    def frames(self) -> int:
        """Frames of features that it takes."""
        return 2 * self.context

    def forward(self, features: Floats) -> Array:
        """States of shape (context, width) for features of shape (mels, frames)."""
        if features.shape != (self.mels, self.frames):
            raise ShapeError(
                f"encoder: expected features of shape ({self.mels}, {self.frames}), "
                f"got {features.shape}"
            )
        first = self._first.forward(self._columns(features.T, 1), "conv1", activation="gelu")
        columns = self._columns(first.to_numpy(), 2)
        x = self._second.forward(columns, "conv2", activation="gelu", residual=self._positions)
        for index, layer in enumerate(self._layers):
            x = layer.forward(x, f"encoder.{index}")
        return self._norm.forward(x, "encoder.norm")

    def _columns(self, frames: Floats, stride: int) -> Array:
        """What is under the kernel at each step, one row a step; zeros are around the frames."""
        count, channels = frames.shape
        padded = np.zeros((count + 2, channels), np.float32)
        padded[1:-1] = frames
        steps = (count - 1) // stride + 1
        windows = np.lib.stride_tricks.as_strided(
            padded,
            (steps, _KERNEL * channels),
            (stride * channels * padded.itemsize, padded.itemsize),
            writeable=False,
        )
        return transfer.store("columns", self.device, windows)
