"""Runs steps: one upload, one graph, one read-back.

A step can be launched while the one before it still runs: inputs and outputs lie on two sides, and
tokens that are not read back yet go from one step to the next in the device's memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import ops
from assay.engine.core.batch_scheduler import Turn
from assay.engine.core.degradations import Degradations
from assay.engine.core.kv_memory import KvMemory
from assay.engine.models.model import Model
from assay.engine.runner.input_batch import Telling
from assay.engine.runner.step_buffers import (
    DEFAULT_BUCKETS,
    Inputs,
    Size,
    Step,
    Workspace,
    bucket,
    columns_for,
)
from assay.errors import DeviceError
from assay.lazy_import import LazyModule
from assay.runtime import Array, Device
from assay.runtime.graphs import Graph, NodeTime, capture_graph

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LazyModule("numpy", globals(), "np")

MOST_PROGRAMS = 256
"""Sizes of step that are kept ready; the one not used for longest goes first."""


@dataclass(slots=True)
class Program:
    """How a step of one size runs, on one side of inputs and outputs."""

    inputs: Inputs
    step: Step
    graph: Graph | None = None
    """None while it is not captured, and where it cannot be."""

    def close(self) -> None:
        """Let go of the graph."""
        if self.graph is not None:
            self.graph.close()


class Flight(NamedTuple):
    """A step that was launched, and whose tokens are not read yet."""

    turns: Sequence[Turn]
    side: int
    size: Size
    tokens_out: Array

    @property
    def samples(self) -> int:
        """Tokens that it chooses."""
        return sum(turn.samples for turn in self.turns)


class Runner:
    """A model with the memory it runs in, and a graph for each size of step."""

    def __init__(
        self,
        model: Model,
        device: Device,
        kv: KvMemory,
        *,
        rows: int,
        sequences: int,
        samples: int,
        context: int,
        invariant: bool,
        buckets: int,
        split: int,
    ) -> None:
        """Allocate for steps of up to so many rows, sequences and sampled rows.

        Steps of so many sizes between a number and its double have graphs; with none, operations
        are queued one by one.
        """
        self.model = model
        self.device = device
        self.kv = kv
        self.invariant = invariant
        self.buckets = buckets
        self.degradations = Degradations()
        self.split = split
        self.workspace = Workspace(
            device,
            model.shape,
            rows=self._bucket(rows),
            sequences=self._bucket(sequences),
            samples=self._bucket(samples),
            table_width=-(-context // kv.keys[0].shape[1]),
        )
        self._programs: OrderedDict[tuple[Size, int], Program] = OrderedDict()
        # Operations keep memory to work in for each stream: one serves all graphs.
        self._stream = device.stream()
        self._telling = Telling(self.workspace, kv)

    def run(
        self, turns: Sequence[Turn], *, logprobs: bool = False
    ) -> tuple[list[int], list[float] | None]:
        """Compute a step; returns a token for each sampled row, and its log-probability."""
        return self.collect(self.launch(turns, logprobs=logprobs))

    def launch(
        self, turns: Sequence[Turn], *, logprobs: bool = False, after: Flight | None = None
    ) -> Flight:
        """Tell a step and set it going, perhaps behind one that is still under way."""
        side = 0 if after is None else 1 - after.side
        program = self._tell(turns, logprobs, side)
        if program.graph is None:
            self._queue(program.step)
        else:
            program.graph.replay()
        return Flight(turns, side, program.step.size, program.step.tokens_out)

    def collect(self, flight: Flight) -> tuple[list[int], list[float] | None]:
        """Wait for a step; returns a token for each sampled row, and its log-probability."""
        size, samples = flight.size, flight.samples
        if not size.samples:
            return [], None
        words = size.samples * (2 if size.logprobs else 1)
        read = self.workspace.readback[:words]
        self.device._context.download("step_outputs", flight.tokens_out.buffer, 0, read)
        tokens: list[int] = read[:samples].tolist()
        if not size.logprobs:
            return tokens, None
        chances: Any = read[size.samples : size.samples + samples].cast("B").cast("f")
        return tokens, chances.tolist()

    def profile(self, turns: Sequence[Turn]) -> list[NodeTime]:
        """Compute a step, timing each operation."""
        return self._captured(self._tell(turns, False, 0)).profile()

    def logits(self, rows: int) -> npt.NDArray[np.float32]:
        """The logits of the first sampled rows of the last step, as they were sampled from."""
        out = np.empty((rows, self.model.shape.vocabulary), np.float32)
        into = out.reshape(-1).view(np.uint8)
        self.device._context.download("logits", self.workspace.logits.buffer, 0, into)
        return out

    def graph(self, rows: int, *, logprobs: bool = False) -> Graph:
        """The graph of a decoding step of so many sequences."""
        rows = self._bucket(rows)
        columns = self._columns(1)
        size = Size(rows, rows, rows, columns, logprobs=logprobs, single=not self.invariant)
        return self._captured(self._program(size, 0))

    def close(self) -> None:
        """Let go of all graphs."""
        for program in self._programs.values():
            program.close()
        self._programs.clear()

    def _bucket(self, count: int) -> int:
        return bucket(count, self.buckets or DEFAULT_BUCKETS)

    def _columns(self, tokens: int) -> int:
        """How wide block tables are where the longest context has so many tokens."""
        most = self.workspace.most.columns
        if self.invariant:
            # Kernels of attention are shaped by it, and may not depend on who else runs.
            return most
        return columns_for(-(-tokens // self.kv.keys[0].shape[1]), most)

    def _tell(self, turns: Sequence[Turn], logprobs: bool, side: int) -> Program:
        """Upload everything that a step is told; it may run then, and only then."""
        rows = sum(turn.count for turn in turns)
        samples = sum(turn.samples for turn in turns)
        penalties = any(turn.samples and turn.request.params.penalized for turn in turns)
        # A GPU has a kernel of its own for single tokens, which adds in another order; what a
        # request says may not depend on whether prompts are in the same step.
        single = not self.invariant and all(turn.count == 1 for turn in turns)
        size = Size(
            self._bucket(rows),
            self._bucket(len(turns)),
            self._bucket(samples),
            self._columns(max(turn.request.computed + turn.count for turn in turns)),
            gathers=rows != samples,
            penalties=penalties,
            logprobs=logprobs,
            single=single,
        )
        program = self._program(size, side)
        self._telling.upload(turns, program.inputs, size, side)
        return program

    def _program(self, size: Size, side: int) -> Program:
        program = self._programs.get((size, side))
        if program is not None:
            self._programs.move_to_end((size, side))
            return program
        if size.penalties:
            self.workspace.need_penalties()
        step = self.workspace.step(
            size,
            side,
            self.kv.keys,
            self.kv.values,
            invariant=self.invariant,
            split=self.split,
        )
        program = Program(Inputs(size), step)
        if self.buckets:
            try:
                self._captured(program)
            except DeviceError as error:
                self.degradations.note(f"{_label(size)} runs without a graph", error.message)
        self._programs[size, side] = program
        if len(self._programs) > MOST_PROGRAMS:
            _, oldest = self._programs.popitem(last=False)
            oldest.close()
        return program

    def _captured(self, program: Program) -> Graph:
        """The graph of a program; nothing runs while it is captured."""
        if program.graph is None:
            program.graph = capture_graph(
                lambda: self._queue(program.step),
                stream=self._stream,
                label=_label(program.step.size),
            )
        return program.graph

    def _queue(self, step: Step) -> None:
        self.model.run(step)
        if step.samples == 0:
            return
        told = step.sampling
        if step.counts is not None:
            ops.penalize(
                step.logits,
                step.counts,
                step.prompt_mask,
                told["repetition"],
                told["presence"],
                told["frequency"],
                label="penalize",
            )
        ops.sample(
            step.logits,
            told["temperature"],
            told["top_k"],
            told["top_p"],
            told["min_p"],
            told["seeds"],
            told["steps"],
            tokens_out=step.tokens_out,
            logprobs_out=step.logprobs_out,
            label="sample",
        )


def _label(size: Size) -> str:
    return f"step.{size.rows}x{size.sequences}x{size.samples}"
