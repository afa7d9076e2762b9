"""The decoder: attention over the text so far and over the encoder's states, one token at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.lazy_import import np
from assay.runtime import Device, transfer
from assay.speech.moonshine.encoder import LAYERS
from assay.speech.moonshine.files import MoonshineFile
from assay.speech.moonshine.layers import (
    Linear,
    attend_one,
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


class DecoderLayer(NamedTuple):
    """Self-attention, cross-attention and MLP, each added to its input."""

    norm: Floats
    qkv: Linear
    output: Linear
    cross_norm: Floats
    cross_query: Linear
    cross_key_value: Linear
    cross_output: Linear
    mlp_norm: Floats
    up: Linear
    down: Linear


class Text:
    """Keys and values of the text so far, and of the encoder's states."""

    def __init__(self, cross: list[tuple[Floats, Floats]], most: int) -> None:
        """Make room for `most` tokens."""
        self.cross: Final = cross
        heads, _, width = cross[0][0].shape
        shape = (heads, most, width)
        self.keys: Final = [np.empty(shape, np.float32) for _ in cross]
        self.values: Final = [np.empty(shape, np.float32) for _ in cross]
        self.length = 0


class Decoder:
    """The decoder of a model."""

    def __init__(self, file: MoonshineFile, device: Device) -> None:
        """Load it."""
        self._device = device
        embedding = file.quantized("model.decoder.embed_tokens.weight", transposed=True)
        self._embedding = embedding.integers
        self._scale = np.float32(embedding.scale)
        self._logits = ops.pack(embedding.integers, "f16", embedding.integers.shape, device)
        self._layers = tuple(
            self._layer(file, f"model.decoder.layers.{index}") for index in range(LAYERS)
        )
        self._norm = file.vector("model.decoder.norm.weight")

    def _layer(self, file: MoonshineFile, name: str) -> DecoderLayer:
        def linear(module: str, parts: str, *, bias: bool = False) -> Linear:
            return load_linear(file, f"{name}.{module}", parts, self._device, bias=bias)

        return DecoderLayer(
            norm=file.vector(f"{name}.input_layernorm.weight"),
            qkv=linear("self_attn", "q_proj k_proj v_proj"),
            output=linear("self_attn", "dense"),
            cross_norm=file.vector(f"{name}.post_attention_layernorm.weight"),
            cross_query=linear("encoder_attn", "q_proj"),
            cross_key_value=linear("encoder_attn", "k_proj v_proj"),
            cross_output=linear("encoder_attn", "dense"),
            mlp_norm=file.vector(f"{name}.final_layernorm.weight"),
            up=linear("mlp", "up_proj", bias=True),
            down=linear("mlp", "down_proj", bias=True),
        )

    def begin(self, states: Floats, most: int) -> Text:
        """A text of `most` tokens at most over the encoder's states."""
        rows = quantize(states)
        cross = []
        for index, layer in enumerate(self._layers):
            both = layer.cross_key_value.forward(rows, f"decoder.{index}.cross.key_value")
            keys, values = heads_of(both, 2)
            # Heads first: each is then one piece of memory that every token reads.
            cross.append((_by_head(keys), _by_head(values)))
        return Text(cross, most)

    def step(self, token: int, text: Text) -> Floats:
        """The logits after one more token."""
        x = self._embedding[token].astype(np.float32)[None] * self._scale
        turns = rotations(text.length, 1)
        text.length += 1
        for index, layer in enumerate(self._layers):
            x = self._forward(layer, index, x, turns, text)
        rows = transfer.store("hidden", self._device, normed(x, self._norm) * self._scale)
        logits: Floats = ops.linear(rows, self._logits, label="logits").to_numpy()[0]
        return logits

    def _forward(
        self, layer: DecoderLayer, index: int, x: Floats, turns: tuple[Floats, Floats], text: Text
    ) -> Floats:
        label = f"decoder.{index}"
        at = text.length - 1
        inner = quantize(normed(x, layer.norm))
        query, key, value = heads_of(layer.qkv.forward(inner, f"{label}.qkv"), 3)
        text.keys[index][:, at] = rotated(key, turns)[0]
        text.values[index][:, at] = value[0]
        keys, values = text.keys[index][:, : at + 1], text.values[index][:, : at + 1]
        attended = attend_one(rotated(query, turns)[0], keys, values)
        x = x + layer.output.forward(quantize(attended), f"{label}.output")
        inner = quantize(normed(x, layer.cross_norm))
        [query] = heads_of(layer.cross_query.forward(inner, f"{label}.cross.query"))
        attended = attend_one(query[0], *text.cross[index])
        x = x + layer.cross_output.forward(quantize(attended), f"{label}.cross.output")
        inner = quantize(normed(x, layer.mlp_norm))
        both = layer.up.forward(inner, f"{label}.up")
        half = both.shape[1] // 2
        gate = both[:, half:]
        gated = gate / (1 + np.exp(-gate)) * both[:, :half]
        return np.asarray(x + layer.down.forward(quantize(gated), f"{label}.down"))


def _by_head(x: Floats) -> Floats:
    return np.ascontiguousarray(x.transpose(1, 0, 2))
