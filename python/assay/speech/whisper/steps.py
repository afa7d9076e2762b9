"""Decoding of several recordings at once: a step is captured as a graph, and replayed for every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay import ops
from assay.errors import InputError, ShapeError
from assay.lazy_import import np
from assay.runtime import Array, allocation, dtypes, transfer
from assay.runtime.graphs import Graph, capture_graph
from assay.speech.layers import Buffers, view_as
from assay.speech.whisper.decoder import BLOCK_TOKENS, Decoder, Encoded, Step, TextCache

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]


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
        self._columns = -(-decoder.context // BLOCK_TOKENS)
        slots = sequences * self._columns * BLOCK_TOKENS
        self._cache = TextCache(decoder, slots, BLOCK_TOKENS)
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

    def begin(self, encoded: Encoded, prompt: Sequence[int], rows: Sequence[int]) -> Floats:
        """Begin every sequence with a prompt over the states of one recording: logits after rows of the prompt.

        Keys and values of the states are in memory that stays where it is.
        """
        before = self._encoded
        if before is None or before.keys[0].buffer is not encoded.keys[0].buffer:
            self._graph = None
        self._encoded = encoded
        self._cache.clear()
        hidden, _ = self._decoder.forward([prompt], [np.empty(0, np.int32)], encoded, self._cache)
        self._written = len(prompt)
        self.reorder([0] * self.sequences)
        return self._decoder.logits(hidden, rows)

    def reorder(self, sources: Sequence[int]) -> None:
        """Give each sequence the text of another."""
        if list(sources) == list(range(self.sequences)):
            return
        device = self._decoder.device
        rows = transfer.store("sources", device, np.array(sources, np.int32))
        for cached in (*self._cache.keys, *self._cache.values):
            by_sequence = view_as(cached, (self.sequences, cached.size // self.sequences))
            copy = self._buffers.take("reordered", by_sequence.shape)
            ops.gather_rows(by_sequence, rows, copy, label="whisper.reorder")
            transfer.copy_into(by_sequence, copy, "whisper.reorder")

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
        inputs[2] = np.arange(self.sequences) * self._columns * BLOCK_TOKENS + at
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
            self._inputs[0],
            self._step,
            self._cache.keys,
            self._cache.values,
            self._encoded,
            self._buffers,
        )


class GraphBeams:
    """Beams that hear the same 30 seconds, on a device that runs graphs: each has blocks of its own."""

    def __init__(self, steps: GraphDecoder, encoded: Encoded) -> None:
        """Beams in the memory of a decoder's sequences, which was allocated before."""
        self._steps = steps
        self._encoded = encoded

    def begin(self, prompt: Sequence[int], rows: Sequence[int]) -> tuple[Floats, Integers]:
        """Forget what was written and write a prompt: logits after rows of it, and where it is."""
        return self._steps.begin(self._encoded, prompt, rows), np.zeros(1, np.int32)

    def run(
        self, tokens: Sequence[int], tables: Sequence[Integers]
    ) -> tuple[Floats, list[Integers]]:
        """Write a token of each beam: logits of the next ones, and where each beam is."""
        count = len(tokens)
        # Beams that ended leave rows that nobody reads.
        sources = [int(table[0]) for table in tables]
        self._steps.reorder([*sources, *range(count, self._steps.sequences)])
        idle = [0] * (self._steps.sequences - count)
        logits: Floats = self._steps.step([*tokens, *idle]).to_numpy()[:count]
        return logits, [np.array([row], np.int32) for row in range(count)]
