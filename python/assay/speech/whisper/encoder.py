"""The encoder: two convolutions over the features, then layers of attention over 30 seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.errors import ShapeError
from assay.lazy_import import np
from assay.runtime import Array, transfer
from assay.speech.layers import Linear, Mlp, Norm, rounded, view_as
from assay.speech.whisper.layers import Loader

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]

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
    attended_format: str | None

    def forward(self, x: Array, count: int, label: str) -> Array:
        """Rows of the next layer, of `count` recordings one after the other."""
        normed = self.norm.forward(x, f"{label}.attention.norm")
        rows, width = x.shape
        shape = (count, rows // count, self.heads, width // self.heads)
        query, key, value = (
            view_as(linear.forward(normed, f"{label}.attention.{name}"), shape)
            for name, linear in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        key, value = (
            rounded(part, self.attended_format, f"{label}.attention.rounded")
            for part in (key, value)
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
        self.dtype: Final = loader.dtype
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
        self._taken: dict[tuple[int, int, int], Array] = {}

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
            attended_format=loader.attended_format,
        )

    @property
    def frames(self) -> int:
        """Frames of features that it takes."""
        return 2 * self.context

    def forward(self, features: Floats) -> Array:
        """States of shape (context, width) for features of shape (mels, frames).

        Features of several recordings, (N, mels, frames), give N times as many rows, one recording after the other.
        """
        if features.shape[-2:] != (self.mels, self.frames) or features.ndim > 3:
            raise ShapeError(
                f"encoder: expected features of shape ({self.mels}, {self.frames}), "
                f"got {features.shape}"
            )
        count = len(features) if features.ndim == 3 else 1
        by_frame = features.reshape(count, self.mels, self.frames).swapaxes(1, 2)
        rows = np.ascontiguousarray(by_frame).reshape(count * self.frames, self.mels)
        return self.forward_rows(transfer.store("features", self.device, rows, self.dtype), count)

    def forward_rows(self, frames: Array, count: int) -> Array:
        """The same for features in device memory: a row a frame, recordings one after the other."""
        columns = self._columns(frames, count, 1)
        first = self._first.forward(columns, "conv1", activation="gelu")
        columns = self._columns(first, count, 2)
        positions = self._positions if count == 1 else self._repeated_positions(count)
        x = self._second.forward(columns, "conv2", activation="gelu", residual=positions)
        for index, layer in enumerate(self._layers):
            x = layer.forward(x, count, f"encoder.{index}")
        return self._norm.forward(x, "encoder.norm")

    def _columns(self, frames: Array, count: int, stride: int) -> Array:
        """What is under the kernel at each step, one row a step; zeros are around each recording's frames."""
        rows, channels = frames.shape
        taken = self._gathered((rows // count, count, stride), _rows_under_kernel)
        gathered = ops.gather_rows(frames, taken, label="columns")
        return view_as(gathered, (taken.size // _KERNEL, _KERNEL * channels))

    def _repeated_positions(self, count: int) -> Array:
        taken = self._gathered((self.context, count, 0), _rows_repeated)
        return ops.gather_rows(self._positions, taken, label="positions")

    def _gathered(self, key: tuple[int, int, int], rows: Callable[..., Integers]) -> Array:
        """Numbers of rows in device memory, made once."""
        if key not in self._taken:
            self._taken[key] = transfer.store("rows", self.device, rows(*key))
        return self._taken[key]


def _rows_under_kernel(frames: int, count: int, stride: int) -> Integers:
    """The frames under the kernel at each step of each recording; -1 before the first and after the last."""
    steps = np.arange((frames - 1) // stride + 1, dtype=np.int32)[:, None] * stride
    under = steps + np.arange(_KERNEL, dtype=np.int32) - _KERNEL // 2
    inside = (under >= 0) & (under < frames)
    first = np.arange(count, dtype=np.int32)[:, None, None] * frames
    return np.where(inside, under + first, np.int32(-1)).reshape(-1)


def _rows_repeated(rows: int, count: int, _: int) -> Integers:
    return np.tile(np.arange(rows, dtype=np.int32), count)
