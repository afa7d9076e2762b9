"""Decoding of several recordings at once: a step is captured as a graph, and replayed for every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay.errors import InputError, ShapeError
from assay.lazy_import import np
from assay.runtime import Array, allocation, dtypes, transfer
from assay.runtime.graphs import Graph, capture_graph
from assay.speech.whisper.decoder import Decoder, Encoded, Step
from assay.speech.whisper.layers import Buffers

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]

_BLOCK_TOKENS: Final = 16
"""Tokens of a block of the KV cache: the least that every device's attention takes."""


class GraphDecoder:
    """Sequences of as many recordings, one token each at a step, in memory that stays where it is.

    A step reads tokens and lengths from device memory, so that one graph serves all steps and all recordings.
    """

    def __init__(self, decoder: Decoder, sequences: int) -> None:
        """Allocate the memory of so many sequences; the first step captures the graph."""
        if sequences < 1:
            raise InputError(f"decoder: expected at least 1 sequence, got {sequences}")
        self.sequences: Final = sequences
        self._decoder = decoder
        self._buffers = Buffers(decoder.device, decoder.dtype)
        self._columns = -(-decoder.context // _BLOCK_TOKENS)
        shape = (sequences * self._columns, _BLOCK_TOKENS, decoder.heads, decoder.head_dim)
        self._keys, self._values = (
            [allocation.empty(decoder.device, shape, decoder.dtype, name) for _ in decoder.layers]
            for name in ("keys", "values")
        )
        # A row each of tokens, positions, slots and lengths: one copy a step.
        self._inputs = allocation.zeros(
            decoder.device, (4, sequences), dtypes.int32, "inputs of a step"
        )
        tables = np.arange(sequences * self._columns, dtype=np.int32).reshape(sequences, -1)
        starts = np.arange(sequences + 1, dtype=np.int32)
        self._step: Final = Step(
            positions=self._inputs[1],
            slots=self._inputs[2],
            tables=transfer.store("tables", decoder.device, tables),
            starts=transfer.store("starts", decoder.device, starts),
            lengths=self._inputs[3],
            contexts=None,
            most_rows=1,
        )
        self._encoded: Encoded | None = None
        self._logits: Array | None = None
        self._graph: Graph | None = None
        self._written = 0

    def listen(self, states: Array) -> None:
        """Begin with the encoder's states of the recordings, one below the other; forget what was written."""
        if states.shape[0] % self.sequences:
            raise ShapeError(
                f"decoder: expected states of {self.sequences} recordings, got {states.shape[0]} rows"
            )
        self._encoded = self._decoder.encoded(states, self.sequences, self._buffers)
        self._written = 0

    def step(self, tokens: Sequence[int] | Integers) -> Array:
        """Write a token of each sequence; the logits of the next ones, (sequences, vocabulary), in device memory.

        They are overwritten by the next step. A sequence that has ended takes any token.
        """
        if self._encoded is None:
            raise InputError("decoder: expected listen() before the first step, got none")
        at = self._written
        if at >= self._decoder.context:
            raise InputError(f"text: expected at most {self._decoder.context} tokens, got {at + 1}")
        if len(tokens) != self.sequences:
            raise ShapeError(f"decoder: expected {self.sequences} tokens, got {len(tokens)}")
        inputs = np.empty((4, self.sequences), np.int32)
        inputs[0], inputs[1], inputs[3] = tokens, at, at + 1
        inputs[2] = np.arange(self.sequences) * self._columns * _BLOCK_TOKENS + at
        transfer.write("inputs of a step", self._inputs, inputs)
        if self._graph is None:
            # Once outside of a capture: kernels are compiled and buffers allocated.
            self._logits = self._forward()
            if not self._decoder.device.capabilities.executes_asynchronously:
                self._written += 1
                return self._logits
            self._graph = capture_graph(
                self._forward, device=self._decoder.device, label="whisper.step"
            )
        else:
            self._graph.replay()
        self._written += 1
        if self._logits is None:
            raise InputError("decoder: expected logits of the first step, got none")
        return self._logits

    def _forward(self) -> Array:
        if self._encoded is None:
            raise InputError("decoder: expected listen() before the first step, got none")
        return self._decoder.forward_step(
            self._inputs[0], self._step, self._keys, self._values, self._encoded, self._buffers
        )
