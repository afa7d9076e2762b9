"""An encoder in device memory, and its forward pass over the tokens of several texts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from assay import ops
from assay.engine.architectures import encoder as spec
from assay.engine.architectures.decoder import Linear as LinearSpec, Norm as NormSpec
from assay.engine.architectures.registry import ENCODERS
from assay.engine.models.head_padding import HeadPadding, head_padding
from assay.engine.models.weights import Change, WeightSource
from assay.lazy_import import np
from assay.runtime import Array, Device, allocation, transfer
from assay.runtime.layout import Layout, row_major

if TYPE_CHECKING:
    import numpy.typing as npt


class EncoderLinear(NamedTuple):
    """A linear layer with bias."""

    weights: ops.Weights
    bias: Array | None

    def forward(
        self, x: Array, label: str, *, activation: str | None = None, residual: Array | None = None
    ) -> Array:
        """activation(x @ weights.T + bias) + residual."""
        return ops.linear(
            x, self.weights, bias=self.bias, activation=activation, residual=residual, label=label
        )


class EncoderNorm(NamedTuple):
    """A LayerNorm."""

    weight: Array
    bias: Array
    epsilon: float

    def forward(self, x: Array, label: str, *, residual: Array | None = None) -> Array:
        """The norm of `x`, or of its sum with `residual`, which becomes that sum."""
        return ops.layer_norm(
            x, self.weight, self.bias, self.epsilon, residual=residual, label=label
        )


class EncoderLayer(NamedTuple):
    """Attention and MLP, each added to its input and normed."""

    query: EncoderLinear
    key: EncoderLinear
    value: EncoderLinear
    output: EncoderLinear
    attention_norm: EncoderNorm
    up: EncoderLinear
    down: EncoderLinear
    mlp_norm: EncoderNorm
    activation: str
    heads: int
    scale: float

    def forward(self, x: Array, starts: Sequence[int], label: str) -> Array:
        """Rows of the next layer; a text's rows begin at its start and end at the next one."""
        projected = [
            linear.forward(x, f"{label}.attention.{name}")
            for name, linear in (("query", self.query), ("key", self.key), ("value", self.value))
        ]
        attended = allocation.empty(x.device, projected[0].shape, x.dtype, "attention")
        for first, last in pairwise(starts):
            query, key, value, out = (
                _heads(array, first, last, self.heads) for array in (*projected, attended)
            )
            ops.attention(
                query,
                key,
                value,
                causal=False,
                scale=self.scale,
                out=out,
                label=f"{label}.attention.scores",
            )
        summed = self.output.forward(attended, f"{label}.attention.output", residual=x)
        x = self.attention_norm.forward(summed, f"{label}.attention.norm")
        inner = self.up.forward(x, f"{label}.mlp.up", activation=self.activation)
        summed = self.down.forward(inner, f"{label}.mlp.down", residual=x)
        return self.mlp_norm.forward(summed, f"{label}.mlp.norm")


def _heads(array: Array, first: int, last: int, heads: int) -> Array:
    """Some rows of an array as tokens of heads."""
    width = array.shape[1]
    shape = (last - first, heads, width // heads)
    offset = array.offset + first * width * array.dtype.itemsize
    return array.view(Layout(shape, row_major(shape, array.dtype.itemsize), offset))


@dataclass(frozen=True, slots=True)
class EncoderModel:
    """Weights in device memory and the forward pass over them; immutable."""

    description: spec.Encoder
    device: Device
    embedding: ops.Weights
    positions: ops.Weights
    """Of each position, with the embedding of the first token type added."""
    norm: EncoderNorm
    layers: tuple[EncoderLayer, ...]
    weight_format: str
    weight_bytes: int
    notes: tuple[str, ...]

    def hidden_states(self, texts: Sequence[Sequence[int]]) -> Array:
        """The last layer's output for the tokens of all texts, one text after the other."""
        first = self.description.first_position
        tokens = np.array([token for text in texts for token in text], np.int32)
        places = np.concatenate([np.arange(len(text), dtype=np.int32) for text in texts]) + first
        starts = [0, *np.cumsum([len(text) for text in texts]).tolist()]
        x = ops.embedding(self._stored(tokens), self.embedding, label="embedding")
        x = self.norm.forward(
            ops.embedding(self._stored(places), self.positions, label="positions"),
            "embedding.norm",
            residual=x,
        )
        for index, layer in enumerate(self.layers):
            x = layer.forward(x, starts, f"layers.{index}")
        return x

    def _stored(self, values: npt.NDArray[np.int32]) -> Array:
        return transfer.store("inputs", self.device, values)


def build_encoder(source: WeightSource, head_dims: Sequence[int] | None = None) -> EncoderModel:
    """The encoder of a file; heads are padded to one of these sizes, by default the device's."""
    files, device = source.files, source.device
    encoder = ENCODERS[files.architecture].encoder(files.config)
    if head_dims is None:
        head_dims = device.capabilities.attention_head_dims
    padding = head_padding(encoder.head_dim, head_dims)
    if padding.is_needed:
        source.notes.append(f"heads of {padding.size} computed as heads of {padding.padded}")
    builder = _Builder(source, encoder, padding)
    layers = tuple(builder.layer(block) for block in encoder.blocks)
    types = files.tensors[f"{encoder.types}.weight"].to_float32()[0]
    embedding = source.table(encoder.embedding)
    positions = source.matrix(
        encoder.positions, gathered=True, unquantized=True, change=lambda rows: rows + types
    )
    return EncoderModel(
        description=encoder,
        device=device,
        embedding=embedding,
        positions=positions,
        norm=builder.norm(encoder.norm),
        layers=layers,
        weight_format=source.format or layers[0].down.weights.format,
        weight_bytes=source.nbytes,
        notes=tuple(source.notes),
    )


class _Builder:
    """Builds layers from their descriptions."""

    def __init__(self, source: WeightSource, encoder: spec.Encoder, padding: HeadPadding) -> None:
        self._source = source
        self._encoder = encoder
        self._padding = padding

    def layer(self, block: spec.EncoderBlock) -> EncoderLayer:
        padding, is_padded = self._padding, self._padding.is_needed
        rows = padding.rows if is_padded else None
        return EncoderLayer(
            query=self._linear(block.query, rows=rows),
            key=self._linear(block.key, rows=rows),
            value=self._linear(block.value, rows=rows),
            output=self._linear(block.output, columns=padding.columns if is_padded else None),
            attention_norm=self.norm(block.attention_norm),
            up=self._linear(block.up),
            down=self._linear(block.down),
            mlp_norm=self.norm(block.mlp_norm),
            activation=block.activation,
            heads=self._encoder.heads,
            scale=float(padding.size**-0.5),
        )

    def norm(self, norm: NormSpec) -> EncoderNorm:
        weight, bias = (self._source.vector(f"{norm.name}.{part}") for part in ("weight", "bias"))
        return EncoderNorm(weight, bias, self._encoder.epsilon)

    def _linear(
        self, linear: LinearSpec, *, rows: Change | None = None, columns: Change | None = None
    ) -> EncoderLinear:
        [name] = linear.names
        bias = self._source.vector(f"{name}.bias", change=rows) if linear.bias else None
        return EncoderLinear(self._source.matrix(name, change=rows or columns), bias)
