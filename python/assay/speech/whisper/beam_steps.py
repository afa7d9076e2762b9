"""Steps of beams that hear the same 30 seconds, one token of each, captured as graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Array, allocation, dtypes, transfer
from assay.runtime.graphs import Graph, capture_graph
from assay.speech.layers import Buffers
from assay.speech.whisper.decoder import Decoder, Encoded, Step, TextCache

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]

_EAGER_STEPS: Final = 2
"""Of a number of beams before they are captured: a capture takes as long as to queue two steps."""


class _Program:
    """The step of a number of beams, with all inputs and results in memory that stays where it is."""

    def __init__(
        self, decoder: Decoder, encoded: Encoded, cache: TextCache, beams: int, columns: int
    ) -> None:
        device = decoder.device
        self._decoder = decoder
        self._encoded = encoded
        self._cache = cache
        self._buffers = Buffers(device, decoder.dtype)
        # A row each of tokens, positions, slots and lengths: one copy a step.
        self._inputs = allocation.zeros(device, (4, beams), dtypes.int32, "inputs of a step")
        self._tables = allocation.zeros(device, (beams, columns), dtypes.int32, "tables")
        self._step = Step(
            positions=self._inputs[1],
            slots=self._inputs[2],
            tables=self._tables,
            starts=transfer.store("starts", device, np.arange(beams + 1, dtype=np.int32)),
            lengths=self._inputs[3],
            contexts=None,
            most_rows=1,
        )
        self._graph: Graph | None = None
        self._steps = 0

    def run(self, inputs: Integers, tables: Integers) -> Floats:
        """Logits of the next token of each beam; the next step overwrites them."""
        transfer.write("inputs of a step", self._inputs, inputs)
        transfer.write("tables", self._tables, tables)
        if self._graph is None and self._steps < _EAGER_STEPS:
            self._steps += 1
            values: Floats = self._forward().to_numpy()
            return values
        if self._graph is None:
            device = self._decoder.device
            self._graph = capture_graph(self._forward, device=device, label="whisper.step")
        self._graph.replay()
        shape = (inputs.shape[1], self._decoder.embedding.shape[0])
        values = self._buffers.take("logits", shape, dtypes.float32).to_numpy()
        return values

    def _forward(self) -> Array:
        cache = self._cache
        return self._decoder.forward_step(
            self._inputs[0], self._step, cache.keys, cache.values, self._encoded, self._buffers
        )


class BeamSteps:
    """Steps of beams over a cache, which share what they have in common."""

    def __init__(self, decoder: Decoder, encoded: Encoded, cache: TextCache) -> None:
        """Steps that hear these states; `cache` has what was written before."""
        self._decoder = decoder
        self._encoded = encoded
        self._cache = cache
        self._programs: dict[int, _Program] = {}

    def begin(self, prompt: Sequence[int], rows: Sequence[int]) -> tuple[Floats, Integers]:
        """Forget what was written and write a prompt: logits after rows of it, and its slots."""
        self._cache.clear()
        hidden, [table] = self._decoder.forward(
            [prompt], [np.empty(0, np.int32)], self._encoded, self._cache
        )
        return self._decoder.logits(hidden, rows), table

    def run(
        self, tokens: Sequence[int], tables: Sequence[Integers]
    ) -> tuple[Floats, list[Integers]]:
        """Write a token of each beam: logits of the next ones, and the slots of each beam with the new one."""
        beams, columns = len(tokens), self._decoder.context
        lengths = [len(table) + 1 for table in tables]
        if max(lengths) > columns:
            raise InputError(f"text: expected at most {columns} tokens, got {max(lengths)}")
        slots = self._cache.take(beams)
        padded = np.full((beams, columns), -1, np.int32)
        grown = []
        for row, table, slot, length in zip(padded, tables, slots, lengths, strict=True):
            row[: length - 1] = table
            row[length - 1] = slot
            grown.append(row[:length].copy())
        inputs = np.array([tokens, [length - 1 for length in lengths], slots, lengths], np.int32)
        if beams not in self._programs:
            program = _Program(self._decoder, self._encoded, self._cache, beams, columns)
            self._programs[beams] = program
        return self._programs[beams].run(inputs, padded), grown
