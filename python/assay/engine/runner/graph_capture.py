"""Captured graphs of steps, one for each step shape, padded to a few capture sizes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.engine.models.input_layout import InputLayout
from assay.engine.models.step_buffers import StepBuffers, StepShape
from assay.engine.runner.degradations import Degradations
from assay.errors import DeviceError
from assay.runtime import Stream
from assay.runtime.graphs import Graph, capture_graph

MAX_PROGRAMS = 1024
"""Step programs that are kept; the least recently used one is dropped first."""

DEFAULT_CAPTURED_PREFILL = 128
"""Tokens of a step with prefill up to which a GPU captures a graph at once. A larger one computes longer
than its operations take to queue, behind the step before it: it becomes a graph where its shape recurs,
as those of a server at its token budget do."""

RECURRING = 2
"""Steps of a shape from which on a graph is worth its capture, which takes as long as to queue two."""

PREFILL_TOKENS_MULTIPLE = 64
"""What the tokens of a step are padded to where no graph is captured: rows of a tile of a GEMM."""

DEFAULT_GRAPH_BUCKETS = 8

MIN_TABLE_WIDTH = 64


def capture_size(count: int, buckets: int = DEFAULT_GRAPH_BUCKETS) -> int:
    """The capture size that a count is padded to: few sizes, and little padding at each.

    Up to `buckets` every count is a size; beyond, there are about `buckets` sizes between a power
    of two and the next.

    >>> [capture_size(count) for count in (0, 1, 5, 8, 9, 33, 100, 500)]
    [0, 1, 5, 8, 10, 36, 104, 512]
    >>> [capture_size(count, 1) for count in (1, 2, 3, 5, 9, 100)]
    [1, 2, 4, 8, 16, 128]
    """
    if count <= buckets:
        return count
    stride = 2
    while count > 2 * buckets * stride:
        stride *= 2
    return -(-count // stride) * stride


def block_table_width(blocks: int, max_width: int) -> int:
    """The width of block tables for sequences of up to `blocks` blocks: few widths, 4x apart.

    Attention kernels choose their grid by the longest context that the tables can hold.

    >>> [block_table_width(blocks, 1000) for blocks in (1, 64, 65, 257)]
    [64, 64, 256, 1000]
    """
    width = MIN_TABLE_WIDTH
    while width < blocks:
        width *= 4
    return min(width, max_width)


@dataclass(slots=True)
class StepProgram:
    """What runs a step of one shape, over one of the two sets of input and output buffers."""

    layout: InputLayout
    buffers: StepBuffers
    graph: Graph | None = None
    """None before capture, and where capture failed or is disabled."""
    parts: tuple[Graph, ...] = ()
    """What is launched in place of the graph, one after the other, where a step is split."""
    uses: int = 0
    """Steps that it was asked for."""
    was_refused: bool = False
    """Whether the device could not capture it."""

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """What is launched, in order; nothing where operations are queued one by one."""
        return self.parts or (() if self.graph is None else (self.graph,))

    def close(self) -> None:
        """Destroy the graphs."""
        for graph in (*self.parts, *(() if self.graph is None else (self.graph,))):
            graph.close()


class StepDelays(Protocol):
    """Puts delays before nodes of a step's graph."""

    def inject(self, graph: Graph, stream: Stream) -> Graph:
        """The graph with delays, captured on a stream."""


Split = Callable[[StepBuffers, int], Sequence[Callable[[], None]]]
"""The operations of a step, as functions to call in order: at most as many as asked for."""


class GraphCache:
    """Step programs by shape and buffer index, each captured when it is first needed.

    `split` gives the operations of a step as functions to call in order, as many as it is asked for.
    Without capture they are called anew every step; with several `parts`, each is a graph of its own.
    """

    def __init__(
        self,
        stream: Stream,
        split: Split,
        *,
        captures: bool,
        degradations: Degradations,
        parts: int = 1,
    ) -> None:
        """Start empty; all graphs are captured on `stream`."""
        self._split = split
        self._parts = parts
        self._captures = captures
        self._degradations = degradations
        self._programs: OrderedDict[tuple[StepShape, int, bool, bool], StepProgram] = OrderedDict()
        self._traced = False
        self._delays: StepDelays | None = None
        self._stream = stream

    @property
    def must_capture(self) -> bool:
        """Whether every step has to be a graph: it is timed, delayed or launched in parts."""
        return self._captures and (self._parts > 1 or self._traced or self._delays is not None)

    def get(
        self,
        shape: StepShape,
        buffer_index: int,
        make_buffers: Callable[[], StepBuffers],
        *,
        captures: bool = True,
    ) -> StepProgram:
        """The program of a step shape, captured if it can be and is to be, or recurs."""
        key = (shape, buffer_index, self._traced, self._delays is not None)
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = StepProgram(InputLayout(shape), make_buffers())
            if len(self._programs) > MAX_PROGRAMS:
                _, oldest = self._programs.popitem(last=False)
                oldest.close()
        else:
            self._programs.move_to_end(key)
        program.uses += 1
        is_due = self._captures and (captures or program.uses >= RECURRING)
        if is_due and not program.graphs and not program.was_refused:
            self._try_capture(program)
        return program

    def _try_capture(self, program: StepProgram) -> None:
        try:
            if self._parts > 1 and not self._traced and self._delays is None:
                self._capture_parts(program)
            else:
                self.capture(program)
                self._inject(program)
        except DeviceError as error:
            program.was_refused = True
            label = _label(program.buffers.shape)
            self._degradations.note(f"{label} runs without a graph", error.message)

    def capture(self, program: StepProgram) -> Graph:
        """The graph of a program; capturing runs no kernel."""
        if program.graph is None:
            [whole] = self._split(program.buffers, 1)
            program.graph = self._graph_of(whole, _label(program.buffers.shape))
        return program.graph

    def _capture_parts(self, program: StepProgram) -> None:
        label = _label(program.buffers.shape)
        graphs: list[Graph] = []
        try:
            for index, part in enumerate(self._split(program.buffers, self._parts)):
                graphs.append(self._graph_of(part, f"{label}.{index}"))
        except DeviceError:
            for graph in graphs:
                graph.close()
            raise
        program.parts = tuple(graphs)

    def _graph_of(self, function: Callable[[], None], label: str) -> Graph:
        return capture_graph(function, stream=self._stream, label=label)

    def _inject(self, program: StepProgram) -> None:
        if self._delays is not None and program.graph is not None:
            plain = program.graph
            program.graph = self._delays.inject(plain, self._stream)
            if program.graph is not plain:
                plain.close()

    @property
    def delays(self) -> StepDelays | None:
        """What delays nodes of captured steps; programs with delays are dropped at the end."""
        return self._delays

    @delays.setter
    def delays(self, delays: StepDelays | None) -> None:
        self._delays = delays
        for key in [key for key in self._programs if key[3]]:
            self._programs.pop(key).close()

    @property
    def traced(self) -> bool:
        """Whether programs store when their kernels ran; those that do are dropped at the end."""
        return self._traced

    @traced.setter
    def traced(self, traced: bool) -> None:
        self._traced = traced
        if not traced:
            for key in [key for key in self._programs if key[2]]:
                self._programs.pop(key).close()

    def close(self) -> None:
        """Destroy all graphs."""
        for program in self._programs.values():
            program.close()
        self._programs.clear()


def _label(shape: StepShape) -> str:
    return f"step.{shape.num_tokens}x{shape.num_seqs}x{shape.num_samples}"
