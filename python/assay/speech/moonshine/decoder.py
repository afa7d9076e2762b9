"""The decoder: attention over the text so far and over the encoder's states, one token at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Array, Device, allocation, dtypes, transfer
from assay.runtime.graphs import Graph, capture_graph
from assay.speech.layers import Buffers, Linear, Mlp, Norm, view_as
from assay.speech.moonshine.files import MoonshineFile
from assay.speech.moonshine.layers import HEADS, LAYERS, SCALE, Loader, rotations

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_HEAD_DIM: Final = 48
"""Of padded heads: three registers."""
_WIDTH: Final = HEADS * _HEAD_DIM
_BLOCK_TOKENS: Final = 16
"""Tokens of a block of keys and values."""
_GRAIN: Final = 256
"""Tokens and states that memory grows by: a graph is captured again when it does."""


class DecoderLayer(NamedTuple):
    """Self-attention, cross-attention and MLP, each added to its input."""

    norm: Norm
    qkv: Linear
    output: Linear
    cross_norm: Norm
    cross_query: Linear
    cross_qkv: Linear
    """Of the encoder's states, whose queries are not used."""
    cross_output: Linear
    mlp: Mlp


class Cache:
    """Keys and values of each layer, of one sequence."""

    def __init__(self, device: Device, tokens: int, dtype: dtypes.DType) -> None:
        """Make room for `tokens`."""
        blocks = -(-tokens // _BLOCK_TOKENS)
        shape = (blocks, _BLOCK_TOKENS, HEADS, _HEAD_DIM)
        self.tokens: Final = blocks * _BLOCK_TOKENS
        self.keys, self.values = (
            [allocation.zeros(device, shape, dtype, name) for _ in range(LAYERS)]
            for name in ("keys", "values")
        )
        table = np.arange(blocks, dtype=np.int32)[None]
        self.table: Final = transfer.store("table", device, table)
        self.length: Final = allocation.zeros(device, (1,), dtypes.int32, "length")

    def write(
        self,
        layer: int,
        qkv: Array,
        positions: Array,
        table: ops.RopeTable | None,
        label: str,
        queries: Array | None = None,
    ) -> Array:
        """Write keys and values at positions; the queries."""
        return ops.rope_write(
            qkv,
            positions,
            positions,
            table,
            self.keys[layer],
            self.values[layer],
            queries,
            heads=HEADS,
            kv_heads=HEADS,
            head_dim=_HEAD_DIM,
            label=f"{label}.write",
        )


class Decoder:
    """The decoder of a model."""

    def __init__(self, file: MoonshineFile, device: Device) -> None:
        """Load it."""
        loader = Loader(file, device, _HEAD_DIM)
        self.device: Final = device
        self.embedding: Final = loader.embedding("model.decoder.embed_tokens.weight")
        self.layers: Final = tuple(
            self._layer(loader, f"model.decoder.layers.{index}") for index in range(LAYERS)
        )
        self.norm: Final = loader.norm("model.decoder.norm")
        self._text: Text | None = None

    @staticmethod
    def _layer(loader: Loader, name: str) -> DecoderLayer:
        own, cross = f"{name}.self_attn", f"{name}.encoder_attn"
        return DecoderLayer(
            norm=loader.norm(f"{name}.input_layernorm"),
            qkv=loader.heads(own, "q_proj k_proj v_proj"),
            output=loader.from_heads(f"{own}.dense"),
            cross_norm=loader.norm(f"{name}.post_attention_layernorm"),
            cross_query=loader.heads(cross, "q_proj"),
            cross_qkv=loader.heads(cross, "q_proj k_proj v_proj"),
            cross_output=loader.from_heads(f"{cross}.dense"),
            mlp=Mlp(
                loader.norm(f"{name}.final_layernorm"),
                # Gates are the second half in the file, the first in the operation.
                loader.linear(f"{name}.mlp.up_proj", swapped=True),
                loader.linear(f"{name}.mlp.down_proj"),
                "swiglu",
            ),
        )

    def begin(self, states: Array, most: int) -> Text:
        """A text of `most` tokens at most over the encoder's states; the one before ends."""
        if self._text is None or not self._text.has_room(states.shape[0], most):
            self._text = Text(self, states.shape[0], most)
        self._text.listen(states)
        return self._text


class Text:
    """A text over the encoder's states, in memory that stays where it is: one graph serves all steps of all texts."""

    def __init__(self, decoder: Decoder, states: int, most: int) -> None:
        """Make room for so many states and tokens."""
        device = decoder.device
        self._decoder = decoder
        self._cross = Cache(device, -(-states // _GRAIN) * _GRAIN, dtypes.float16)
        self._own = Cache(device, -(-most // _GRAIN) * _GRAIN, dtypes.float32)
        self._table = rotations(self._own.tokens, device)
        self._buffers = Buffers(device, dtypes.float32)
        # The token, its position, which is its slot, and the length with it: one copy a step.
        self._inputs = allocation.zeros(device, (3, 1), dtypes.int32, "inputs of a step")
        self._starts = transfer.store("starts", device, np.array([0, 1], np.int32))
        self._graph: Graph | None = None
        self._written = 0

    def has_room(self, states: int, most: int) -> bool:
        """Whether so many states and tokens fit."""
        return states <= self._cross.tokens and most <= self._own.tokens

    def listen(self, states: Array) -> None:
        """Begin with the encoder's states; forget what was written."""
        device, count = self._decoder.device, states.shape[0]
        positions = transfer.store("positions", device, np.arange(count, dtype=np.int32))
        for index, layer in enumerate(self._decoder.layers):
            label = f"decoder.{index}.cross"
            qkv = layer.cross_qkv.forward(states, f"{label}.qkv")
            self._cross.write(index, qkv, positions, None, label)
        transfer.write("length", self._cross.length, np.array([count], np.int32))
        self._written = 0

    def write(self, token: int) -> Floats:
        """Write one more token: the logits of the next, which the next step overwrites."""
        at = self._written
        if at >= self._own.tokens:
            raise InputError(f"text: expected at most {self._own.tokens} tokens, got {at + 1}")
        inputs = np.array([[token], [at], [at + 1]], np.int32)
        transfer.write("inputs of a step", self._inputs, inputs)
        self._written += 1
        if self._graph is None:
            # Once outside of a capture: buffers are allocated.
            logits = self._forward()
            label = "moonshine.step"
            self._graph = capture_graph(self._forward, device=self._decoder.device, label=label)
        else:
            self._graph.replay()
            logits = self._buffers.take("logits", (1, self._decoder.embedding.shape[0]))
        values: Floats = logits.to_numpy()[0]
        return values

    def _forward(self) -> Array:
        decoder, take = self._decoder, self._buffers.take
        ids, position, length = (self._inputs[row] for row in range(3))
        shape = (1, decoder.embedding.shape[1])
        x = ops.embedding(ids, decoder.embedding, take("mlp", shape), label="decoder.embedding")
        for index, layer in enumerate(decoder.layers):
            label = f"decoder.{index}"
            normed = layer.norm.forward(x, f"{label}.norm", out=take("norm", shape))
            qkv = layer.qkv.forward(normed, f"{label}.qkv", out=take("qkv", (1, 3 * _WIDTH)))
            query = take("query", (1, _WIDTH))
            query = self._own.write(index, qkv, position, self._table, label, query)
            attended = self._attended(query, self._own, index, length, label)
            out = take("text", shape)
            x = layer.output.forward(attended, f"{label}.output", residual=x, out=out)
            label = f"{label}.cross"
            normed = layer.cross_norm.forward(x, f"{label}.norm", out=take("norm", shape))
            query = layer.cross_query.forward(
                normed, f"{label}.query", out=take("query", (1, _WIDTH))
            )
            attended = self._attended(query, self._cross, index, self._cross.length, label)
            out = take("audio", shape)
            x = layer.cross_output.forward(attended, f"{label}.output", residual=x, out=out)
            x = layer.mlp.forward(x, f"decoder.{index}", self._buffers)
        normed = decoder.norm.forward(x, "decoder.norm", out=take("norm", shape))
        out = take("logits", (1, decoder.embedding.shape[0]))
        return ops.linear(normed, decoder.embedding, out=out, label="decoder.logits")

    def _attended(self, query: Array, cache: Cache, layer: int, length: Array, label: str) -> Array:
        """Attention of one row over all of a cache."""
        attended = ops.paged_attention(
            view_as(query, (1, _WIDTH)),
            cache.keys[layer],
            cache.values[layer],
            cache.table,
            self._starts,
            length,
            heads=HEADS,
            kv_heads=HEADS,
            head_dim=_HEAD_DIM,
            block_tokens=_BLOCK_TOKENS,
            scale=SCALE,
            max_query_len=1,
            out=self._buffers.take("attended", (1, _WIDTH)),
            label=f"{label}.scores",
        )
        return attended
