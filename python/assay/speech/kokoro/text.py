"""What Kokoro reads of phonemes: an ALBERT for the prosody, convolutions and an LSTM for the sound."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assay import ops, xp
from assay.runtime import Array, transfer
from assay.speech.kokoro.layers import Builder, Convolution, LinearLayer, Recurrence

_ALBERT_EPSILON: Final = 1e-12
_EPSILON: Final = 1e-5
_LAYER: Final = "bert.encoder.albert_layer_groups.0.albert_layers.0"


class Norm(NamedTuple):
    """A LayerNorm."""

    weight: Array
    bias: Array
    epsilon: float

    def forward(self, x: Array, label: str) -> Array:
        """The norm of each row."""
        return ops.layer_norm(x, self.weight, self.bias, self.epsilon, label=label)


class Albert(NamedTuple):
    """One layer of attention and MLP, run many times, then a linear layer."""

    embedding: npt.NDArray[np.float32]
    positions: npt.NDArray[np.float32]
    """Of each position, with the embedding of the first token type added."""
    embedding_norm: Norm
    widen: LinearLayer
    query: LinearLayer
    key: LinearLayer
    value: LinearLayer
    output: LinearLayer
    attention_norm: Norm
    up: LinearLayer
    down: LinearLayer
    mlp_norm: Norm
    last: LinearLayer
    layers: int
    heads: int

    def forward(self, tokens: npt.NDArray[np.int64]) -> Array:
        """A row for each token."""
        embedded = self.embedding[tokens] + self.positions[: len(tokens)]
        x = transfer.store("bert.embedding", self.widen.bias.device, embedded)
        x = self.widen.forward(self.embedding_norm.forward(x, "bert.norm"), "bert.widen")
        for index in range(self.layers):
            x = self._layer(x, f"bert.{index}")
        return self.last.forward(x, "bert_encoder")

    def _layer(self, x: Array, label: str) -> Array:
        rows, width = x.shape
        query, key, value = (
            xp.reshape(
                linear.forward(x, f"{label}.{name}"), (rows, self.heads, width // self.heads)
            )
            for name, linear in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        attended = ops.attention(query, key, value, causal=False, label=f"{label}.scores")
        summed = self.output.forward(
            xp.reshape(attended, (rows, width)), f"{label}.output", residual=x
        )
        x = self.attention_norm.forward(summed, f"{label}.attention_norm")
        inner = self.up.forward(x, f"{label}.up", activation="gelu_tanh")
        summed = self.down.forward(inner, f"{label}.down", residual=x)
        return self.mlp_norm.forward(summed, f"{label}.mlp_norm")


class TextEncoder(NamedTuple):
    """Convolutions and an LSTM over phonemes."""

    embedding: npt.NDArray[np.float32]
    convolutions: tuple[Convolution, ...]
    norms: tuple[Norm, ...]
    recurrence: Recurrence

    def forward(self, tokens: npt.NDArray[np.int64]) -> Array:
        """A row for each token."""
        rows = transfer.store(
            "text_encoder.embedding", self.norms[0].weight.device, self.embedding[tokens]
        )
        for index, (convolution, norm) in enumerate(
            zip(self.convolutions, self.norms, strict=True)
        ):
            label = f"text_encoder.{index}"
            channels = convolution.forward(columns(rows), f"{label}.conv")
            rows = norm.forward(rows_of(channels), f"{label}.norm")
            rows = ops.leaky_relu(rows, 0.2, label=f"{label}.activation")
        return self.recurrence.forward(rows, "text_encoder.lstm")


def columns(rows: Array) -> Array:
    """Rows of channels as one sample of channels: (length, C) to (1, C, length)."""
    return xp.asarray(xp.permute_dims(xp.reshape(rows, (1, *rows.shape)), (0, 2, 1)), copy=True)


def rows_of(channels: Array) -> Array:
    """The opposite of `columns`."""
    return xp.asarray(xp.reshape(channels, channels.shape[1:]).T, copy=True)


def build_albert(builder: Builder, layers: int, heads: int) -> Albert:
    """The ALBERT of the parameters, which do not say how many layers and heads it has."""
    parameters = builder.parameters

    def norm(name: str) -> Norm:
        return Norm(builder.array(f"{name}.weight"), builder.array(f"{name}.bias"), _ALBERT_EPSILON)

    types = parameters["bert.embeddings.token_type_embeddings.weight"][0]
    return Albert(
        parameters["bert.embeddings.word_embeddings.weight"],
        parameters["bert.embeddings.position_embeddings.weight"] + types,
        norm("bert.embeddings.LayerNorm"),
        builder.linear("bert.encoder.embedding_hidden_mapping_in"),
        builder.linear(f"{_LAYER}.attention.query"),
        builder.linear(f"{_LAYER}.attention.key"),
        builder.linear(f"{_LAYER}.attention.value"),
        builder.linear(f"{_LAYER}.attention.dense"),
        norm(f"{_LAYER}.attention.LayerNorm"),
        builder.linear(f"{_LAYER}.ffn"),
        builder.linear(f"{_LAYER}.ffn_output"),
        norm(f"{_LAYER}.full_layer_layer_norm"),
        builder.linear("bert_encoder"),
        layers,
        heads,
    )


def build_text_encoder(builder: Builder, depth: int) -> TextEncoder:
    """The text encoder of the parameters."""
    names = [f"text_encoder.cnn.{index}" for index in range(depth)]
    return TextEncoder(
        builder.parameters["text_encoder.embedding.weight"],
        tuple(builder.convolution(f"{name}.0") for name in names),
        tuple(
            Norm(builder.array(f"{name}.1.gamma"), builder.array(f"{name}.1.beta"), _EPSILON)
            for name in names
        ),
        builder.recurrence("text_encoder.lstm"),
    )
