"""The decoder: attention over the text so far and over the encoder's states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from assay import ops
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Array, allocation, dtypes, transfer
from assay.speech.layers import Buffers, Linear, Mlp, Norm, heads_of, rounded, taken, view_as
from assay.speech.whisper.layers import Loader

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]


BLOCK_TOKENS: Final = 16
"""Tokens of a block of the KV cache: the least that every device's attention takes."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The encoder's states of 30 seconds as keys and values of each layer's cross-attention."""

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    recordings: int = 1
    """Whose states are one below the other, as are their rows of a step, equally many of each."""


class TextCache:
    """Keys and values of the text so far: a slot a token, so that beams share what they share.

    A sequence is a row of slots. Choosing among beams copies rows of numbers, never keys or values.
    Where a device's attention takes blocks of several tokens only, the slots of a sequence are
    adjacent, from the first of a block on.
    """

    def __init__(self, decoder: Decoder, slots: int, block_tokens: int = 1) -> None:
        """Allocate `slots` tokens, in whole blocks."""
        shape = (-(-slots // block_tokens), block_tokens, decoder.heads, decoder.head_dim)
        self.keys, self.values = (
            [allocation.empty(decoder.device, shape, decoder.dtype, name) for _ in decoder.layers]
            for name in ("keys", "values")
        )
        self.slots: Final = slots
        self.block_tokens: Final = block_tokens
        self._taken = 0

    def clear(self) -> None:
        """Forget all text."""
        self._taken = 0

    def take(self, count: int) -> Integers:
        """New slots."""
        first = self._taken
        if first + count > self.slots:
            raise InputError(f"text: expected at most {self.slots} tokens, got {first + count}")
        self._taken += count
        return np.arange(first, first + count, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Step:
    """What every layer of a step reads: rows of sequences and their slots, on the device."""

    positions: Array
    slots: Array
    tables: Array
    starts: Array
    lengths: Array
    contexts: tuple[tuple[int, int], ...] | None
    most_rows: int


class DecoderLayer(NamedTuple):
    """Self-attention, cross-attention and MLP, each added to its input."""

    norm: Norm
    qkv: Linear
    output: Linear
    cross_norm: Norm
    cross_query: Linear
    cross_key: Linear
    cross_value: Linear
    cross_output: Linear
    mlp: Mlp
    heads: int

    def attend_to_text(
        self,
        x: Array,
        step: Step,
        keys: Array,
        values: Array,
        label: str,
        buffers: Buffers | None = None,
    ) -> Array:
        """The sum of `x` and the attention over the text."""
        block_tokens, head_dim = keys.shape[1], keys.shape[3]
        rows, width = x.shape
        normed = self.norm.forward(x, f"{label}.norm", out=taken(buffers, "norm", x.shape))
        out = taken(buffers, "qkv", (rows, 3 * width))
        qkv = self.qkv.forward(normed, f"{label}.qkv", out=out)
        heads = (rows, self.heads, head_dim)
        queries = ops.rope_write(
            qkv,
            step.positions,
            step.slots,
            None,
            keys,
            values,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=head_dim,
            q_out=taken(buffers, "query", heads),
            label=f"{label}.write",
        )
        attended = ops.paged_attention(
            queries,
            keys,
            values,
            step.tables,
            step.starts,
            step.lengths,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=head_dim,
            block_tokens=block_tokens,
            contexts=step.contexts,
            max_query_len=step.most_rows,
            out=taken(buffers, "attended", heads),
            label=f"{label}.scores",
        )
        out = taken(buffers, "text", x.shape)
        attended = view_as(attended, x.shape)
        return self.output.forward(attended, f"{label}.output", residual=x, out=out)

    def cross_queries(self, x: Array, label: str, buffers: Buffers | None = None) -> Array:
        """The queries of the cross-attention, as heads."""
        out = taken(buffers, "norm", x.shape)
        normed = self.cross_norm.forward(x, f"{label}.cross.norm", out=out)
        out = taken(buffers, "cross.query", x.shape)
        queries = self.cross_query.forward(normed, f"{label}.cross.query", out=out)
        return heads_of(queries, self.heads)

    def attend_to_audio(
        self,
        x: Array,
        keys: Array,
        values: Array,
        label: str,
        buffers: Buffers | None = None,
        recordings: int = 1,
    ) -> Array:
        """The sum of `x` and the attention of the rows of each recording over its encoder's states."""
        queries, keys, values = (
            view_as(array, (recordings, array.shape[0] // recordings, *array.shape[1:]))
            for array in (self.cross_queries(x, label, buffers), keys, values)
        )
        attended = ops.attention(
            queries,
            keys,
            values,
            False,
            out=taken(buffers, "cross.attended", queries.shape),
            label=f"{label}.cross.scores",
        )
        out = taken(buffers, "audio", x.shape)
        attended = view_as(attended, x.shape)
        return self.cross_output.forward(attended, f"{label}.cross.output", residual=x, out=out)


class Decoder:
    """The decoder of a model."""

    def __init__(self, loader: Loader) -> None:
        """Load it."""
        dimensions = loader.files.dimensions
        self.device: Final = loader.device
        self.context: Final = dimensions.text_context
        self.heads: Final = dimensions.text_heads
        self.head_dim: Final = dimensions.text_width // dimensions.text_heads
        self._embedding: Floats = loader.files.tensor("decoder.token_embedding.weight")
        self._positions: Floats = np.asarray(
            loader.files.tensor("decoder.positional_embedding"), np.float32
        )
        self.layers: Final = tuple(
            self._layer(loader, f"decoder.blocks.{index}", dimensions.text_heads)
            for index in range(dimensions.text_layers)
        )
        self.positions: Final = loader.vector("decoder.positional_embedding")
        self.dtype: Final = loader.dtype
        self._attended_format = loader.attended_format
        self._norm = loader.norm("decoder.ln")
        self._logits = loader.matrix("decoder.token_embedding.weight")

    @staticmethod
    def _layer(loader: Loader, name: str, heads: int) -> DecoderLayer:
        return DecoderLayer(
            norm=loader.norm(f"{name}.attn_ln"),
            qkv=loader.linear(f"{name}.attn.qkv"),
            output=loader.linear(f"{name}.attn.out"),
            cross_norm=loader.norm(f"{name}.cross_attn_ln"),
            cross_query=loader.linear(f"{name}.cross_attn.query"),
            cross_key=loader.linear(f"{name}.cross_attn.key"),
            cross_value=loader.linear(f"{name}.cross_attn.value"),
            cross_output=loader.linear(f"{name}.cross_attn.out"),
            mlp=Mlp(
                loader.norm(f"{name}.mlp_ln"),
                loader.linear(f"{name}.mlp.0"),
                loader.linear(f"{name}.mlp.2"),
            ),
            heads=heads,
        )

    def cache(self, sequences: int) -> TextCache:
        """A cache for sequences that share their start and then part; of one sequence where blocks are larger."""
        if self.takes_single_tokens:
            return TextCache(self, self.context * (1 + sequences))
        return TextCache(self, self.context, BLOCK_TOKENS)

    @property
    def takes_single_tokens(self) -> bool:
        """Whether blocks of one token are a cache that the device's attention reads."""
        return not self.device.capabilities.is_gpu

    def encoded(
        self, states: Array, recordings: int = 1, buffers: Buffers | None = None
    ) -> Encoded:
        """Keys and values of the encoder's states, once for all tokens."""

        def projected(index: int, linear: Linear, part: str) -> Array:
            name = f"decoder.{index}.cross.{part}"
            rows = linear.forward(states, name, out=taken(buffers, name, states.shape))
            return heads_of(rounded(rows, self._attended_format, f"{name}.rounded"), self.heads)

        layers = list(enumerate(self.layers))
        keys = tuple(projected(index, layer.cross_key, "key") for index, layer in layers)
        values = tuple(projected(index, layer.cross_value, "value") for index, layer in layers)
        return Encoded(keys, values, recordings)

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        tables: Sequence[Integers],
        encoded: Encoded,
        cache: TextCache,
        *,
        cross_queries: list[Array] | None = None,
    ) -> tuple[Array, list[Integers]]:
        """Hidden states of new tokens of each sequence, and its slots with theirs.

        `tables` are the slots of the tokens before. With `cross_queries`, those of each layer are
        appended.
        """
        counts = [len(row) for row in tokens]
        lengths = [len(table) + count for table, count in zip(tables, counts, strict=True)]
        if max(lengths) > self.context:
            raise InputError(f"text: expected at most {self.context} tokens, got {max(lengths)}")
        new = cache.take(sum(counts))
        ends = np.cumsum(counts)
        grown = [
            np.concatenate([table, new[end - count : end]])
            for table, count, end in zip(tables, counts, ends.tolist(), strict=True)
        ]
        padded = np.full((len(grown), max(lengths)), -1, np.int32)
        for row, table in zip(padded, grown, strict=True):
            row[: len(table)] = table
        positions = np.concatenate(
            [
                np.arange(length - count, length, dtype=np.int32)
                for length, count in zip(lengths, counts, strict=True)
            ]
        )
        ids = np.fromiter((token for row in tokens for token in row), np.int64)
        embedded = self._embedding[ids].astype(np.float32) + self._positions[positions]
        x = transfer.store("embedded", self.device, embedded, self.dtype)
        step = Step(
            positions=self._stored(positions),
            slots=self._stored(new),
            tables=self._stored(
                np.ascontiguousarray(padded[:, :: cache.block_tokens] // cache.block_tokens)
            ),
            starts=self._stored(np.array([0, *ends], np.int32)),
            lengths=self._stored(np.array(lengths, np.int32)),
            contexts=tuple(zip(counts, lengths, strict=True)),
            most_rows=max(counts),
        )
        for index, layer in enumerate(self.layers):
            label = f"decoder.{index}"
            x = layer.attend_to_text(x, step, cache.keys[index], cache.values[index], label)
            if cross_queries is not None:
                cross_queries.append(layer.cross_queries(x, label))
            keys, values = encoded.keys[index], encoded.values[index]
            x = layer.attend_to_audio(x, keys, values, label, None, encoded.recordings)
            x = layer.mlp.forward(x, label)
        return x, grown

    def forward_step(
        self,
        ids: Array,
        step: Step,
        keys: Sequence[Array],
        values: Sequence[Array],
        encoded: Encoded,
        buffers: Buffers,
    ) -> Array:
        """Logits of one new token of each sequence, of which each has a recording, with all results in buffers."""
        shape = (ids.size, self.heads * self.head_dim)
        embedded = buffers.take("embedded", shape)
        ops.embedding(ids, self.embedding, embedded, label="decoder.embedding")
        places = buffers.take("places", shape)
        ops.gather_rows(self.positions, step.positions, places, label="decoder.positions")
        x = buffers.take("mlp", shape)
        ops.add_residual(embedded, places, out=x, label="decoder.embedded")
        for index, layer in enumerate(self.layers):
            label = f"decoder.{index}"
            x = layer.attend_to_text(x, step, keys[index], values[index], label, buffers)
            of_audio = (encoded.keys[index], encoded.values[index])
            x = layer.attend_to_audio(x, *of_audio, label, buffers, encoded.recordings)
            x = layer.mlp.forward(x, label, buffers)
        normed = self._norm.forward(x, "decoder.norm", out=buffers.take("norm", shape))
        logits = buffers.take("logits", (ids.size, self._logits.shape[0]), dtypes.float32)
        return ops.linear(normed, self._logits, out=logits, label="decoder.logits")

    @property
    def embedding(self) -> ops.Weights:
        """The table of tokens, which also gives the logits."""
        return self._logits

    def logits(self, hidden: Array, rows: Sequence[int] | None = None) -> Floats:
        """Logits of rows, all if none are named."""
        if rows is not None and list(rows) != list(range(hidden.shape[0])):
            hidden = ops.gather_rows(
                hidden, self._stored(np.array(rows, np.int32)), label="decoder.rows"
            )
        normed = self._norm.forward(hidden, "decoder.norm")
        shape = (normed.shape[0], self._logits.shape[0])
        out = allocation.empty(self.device, shape, dtypes.float32, "logits")
        values: Floats = ops.linear(
            normed, self._logits, out=out, label="decoder.logits"
        ).to_numpy()
        return values

    def _stored(self, values: Integers) -> Array:
        return transfer.store("inputs", self.device, values)
