"""The model runner: one upload, one graph launch and one read-back for each step.

A step can be launched while the one before it still runs: inputs and outputs are double-buffered,
and tokens that are not read back yet pass from one step to the next in device memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from assay._native import BlockManager
from assay.engine.models.model import Model
from assay.engine.models.step_buffers import StepBuffers, StepShape
from assay.engine.models.workspace import BUFFER_COUNT, Workspace
from assay.engine.requests.scheduled_sequence import ScheduledSequence, StepTotals, totals_of
from assay.engine.runner import recording
from assay.engine.runner.degradations import Degradations
from assay.engine.runner.graph_capture import (
    DEFAULT_CAPTURED_PREFILL,
    DEFAULT_GRAPH_BUCKETS,
    MIN_TABLE_WIDTH,
    PREFILL_TOKENS_MULTIPLE,
    GraphCache,
    StepDelays,
    StepProgram,
    block_table_width,
    capture_size,
)
from assay.engine.runner.input_batch import InputBatch, Slots
from assay.engine.runner.logits_bias import LogitsBias
from assay.engine.runner.recording import EngineRecorder
from assay.engine.runner.sampler import sample_tokens
from assay.engine.runner.step_clock import StepClock
from assay.engine.runner.token_masks import TokenMasks
from assay.lazy_import import np
from assay.runtime import Array, Device, Stream
from assay.runtime.graphs import Graph, NodeTime

if TYPE_CHECKING:
    import numpy.typing as npt


class KvCache(Protocol):
    """Keys and values of every layer, and the slots of new ones."""

    @property
    def keys(self) -> tuple[Array, ...]:
        """Blocks of keys, by layer."""

    @property
    def values(self) -> tuple[Array, ...]:
        """Blocks of values, by layer."""

    @property
    def block_manager(self) -> BlockManager:
        """What hands blocks out."""


class InFlightStep(NamedTuple):
    """A step that was launched, and whose sampled tokens are not read back yet."""

    scheduled: Sequence[ScheduledSequence]
    buffer_index: int
    buffers: StepBuffers
    totals: StepTotals
    launched_s: float
    number: int | None = None
    """Its number in the trace that is captured, if one is."""


class ModelRunner:
    """A model, the workspace it runs in, and a captured graph for each step shape."""

    def __init__(
        self,
        model: Model,
        device: Device,
        kv: KvCache,
        *,
        max_num_tokens: int,
        max_num_seqs: int,
        max_num_samples: int,
        max_model_len: int,
        batch_invariant: bool,
        graph_buckets: int,
        captured_prefill: int = DEFAULT_CAPTURED_PREFILL,
        graphs_per_step: int = 1,
        num_splits: int,
        capture_stream: Stream,
    ) -> None:
        """Allocate for steps of up to this many tokens, sequences and samples.

        `graph_buckets` is how many capture sizes there are between a power of two and the next;
        with 0, operations are queued one by one, and on a GPU those of steps with prefill of more
        than `captured_prefill` tokens are until their shape recurs. A step is launched as
        `graphs_per_step` graphs. Operations keep scratch memory for each stream, and graphs share it:
        runners that follow one another on a device need it once, with one `capture_stream`.
        """
        self.model = model
        self.device = device
        self.kv = kv
        self.batch_invariant = batch_invariant
        self.graph_buckets = graph_buckets
        self.captured_prefill = captured_prefill
        self.num_splits = num_splits
        self.degradations = Degradations()
        self._recorder: EngineRecorder | None = None
        self._block_tokens = kv.block_manager.statistics()["block_tokens"]
        self.workspace = Workspace(
            device,
            model.shape,
            max_num_tokens=self._capture_size(max_num_tokens),
            max_num_seqs=self._capture_size(max_num_seqs),
            max_num_samples=self._capture_size(max_num_samples),
            max_table_width=-(-max_model_len // self._block_tokens),
        )
        # Not a bound method: a reference cycle would keep the workspace after the runner is dropped.
        self._split = partial(_split, model)
        self._graphs = GraphCache(
            capture_stream,
            self._split,
            captures=bool(graph_buckets),
            degradations=self.degradations,
            parts=graphs_per_step,
        )
        self.clock = StepClock(device)
        self._input_batch = InputBatch(self.workspace, kv.block_manager)
        self._logits_bias = LogitsBias(self.workspace)
        self._token_masks = TokenMasks(self.workspace)
        self._unsampled: InFlightStep | None = None
        """A step that is launched up to its logits, the last one launched."""

    @property
    def recorder(self) -> EngineRecorder | None:
        """What times the steps; None while nothing does."""
        return self._recorder

    @recorder.setter
    def recorder(self, recorder: EngineRecorder | None) -> None:
        self._recorder = recorder
        # Kernels of a GPU store their own times, and are compiled for that.
        self._graphs.traced = (
            recorder is not None and recorder.times_kernels and self.device.capabilities.is_gpu
        )

    @property
    def slots(self) -> Slots:
        """What writes the slots of a step: the block manager, or one that runs ahead of it."""
        return self._input_batch.slots

    @slots.setter
    def slots(self, slots: Slots) -> None:
        self._input_batch.slots = slots

    @property
    def delays(self) -> StepDelays | None:
        """What delays nodes of captured steps; None but for causal profiling."""
        return self._graphs.delays

    @delays.setter
    def delays(self, delays: StepDelays | None) -> None:
        self._graphs.delays = delays

    def run(
        self, scheduled: Sequence[ScheduledSequence], *, logprobs: bool = False
    ) -> tuple[list[int], list[float] | None]:
        """Run a step; returns the sampled tokens and their log-probabilities."""
        return self.collect(self.launch(scheduled, logprobs=logprobs))

    def launch(
        self,
        scheduled: Sequence[ScheduledSequence],
        *,
        logprobs: bool = False,
        after: InFlightStep | None = None,
        number: int | None = None,
    ) -> InFlightStep:
        """Upload the inputs of a step and launch it, behind one that may still be in flight.

        Masks follow from the tokens of the step before: where that is in flight, a step that has
        some is launched up to its logits. `begin_masks` computes them when those tokens are known;
        the next launch queues the sampling before its own step, or `collect` does.
        """
        buffer_index = 0 if after is None else 1 - after.buffer_index
        totals, launched_s = totals_of(scheduled), time.perf_counter()
        if after is None:
            self._unsampled = None
            if not totals.is_plain and _any_masked(scheduled):
                self._token_masks.begin(scheduled)
        program = self._prepare(scheduled, totals, logprobs, buffer_index)
        if self._unsampled is not None:
            self._sample(self._unsampled)
            if self._recorder is not None:
                self._recorder.collecting(number)
        self.clock.begin()
        for graph in program.graphs:
            graph.replay()
        buffers = program.buffers
        if not program.graphs:
            for part in self._split(buffers, 1):
                part()
        step = InFlightStep(scheduled, buffer_index, buffers, totals, launched_s, number)
        if after is None or not buffers.shape.defers_sampling:
            self._end_launch(step)
        else:
            self._unsampled = step
            if self._recorder is not None:
                self._recorder.lap(recording.LAUNCH)
        return step

    def begin_masks(self, step: InFlightStep) -> None:
        """Compute the masks of a step, now that the tokens of the one before it are known."""
        if step is self._unsampled and step.buffers.shape.masked:
            self._token_masks.begin(step.scheduled)

    def _sample(self, step: InFlightStep) -> None:
        """Queue the sampling of a step that was launched up to its logits."""
        if self._recorder is not None:
            self._recorder.collecting(step.number)
        self._end_launch(step)
        self._unsampled = None

    def _end_launch(self, step: InFlightStep) -> None:
        shape = step.buffers.shape
        if shape.biased:
            self._logits_bias.upload(step.scheduled, shape.num_samples)
        if shape.masked:
            self._token_masks.upload(shape.num_samples)
        if shape.defers_sampling:
            sample_tokens(step.buffers)
        self.clock.end(follows=step.totals.continues)
        if self._recorder is not None:
            self._recorder.lap(recording.LAUNCH)

    def collect(self, step: InFlightStep) -> tuple[list[int], list[float] | None]:
        """Wait for a step; returns the sampled tokens and their log-probabilities."""
        if step is self._unsampled:
            self._sample(step)
        shape, num_samples = step.buffers.shape, step.totals.num_samples
        if not shape.num_samples:
            return [], None
        words = shape.num_samples * (2 if shape.logprobs else 1)
        outputs = self.workspace.readback[:words]
        buffer = step.buffers.sampled_tokens.buffer
        if self._recorder is not None:
            # The download would wait too; apart from it the copy has a time of its own.
            buffer.wait_until_written()
            self._recorder.lap(recording.WAIT)
        self.device.download("step_outputs", buffer, 0, outputs)
        if self._recorder is not None:
            self._recorder.lap(recording.READ_BACK, outputs.nbytes)
        tokens: list[int] = outputs[:num_samples].tolist()
        if not shape.logprobs:
            return tokens, None
        first = shape.num_samples
        logprobs: Any = outputs[first : first + num_samples].cast("B").cast("f")
        return tokens, logprobs.tolist()

    def profile(self, scheduled: Sequence[ScheduledSequence]) -> list[NodeTime]:
        """Run a step and time each operation."""
        return self._graphs.capture(
            self._prepare(scheduled, totals_of(scheduled), False, 0)
        ).profile()

    def logits(self, rows: int) -> npt.NDArray[np.float32]:
        """The first rows of the last step's logits, penalties applied."""
        out = np.empty((rows, self.model.shape.vocabulary), np.float32)
        data = out.reshape(-1).view(np.uint8)
        self.device.download("logits", self.workspace.logits.buffer, 0, data)
        return out

    def hidden_row(self, row: int) -> Array:
        """One row of the last step's residual stream, before the final norm."""
        hidden = self.workspace.activations[self.model.last_hidden]
        return hidden[row : row + 1]

    def graph(self, sequences: int) -> Graph:
        """The graph of a decode step of this many sequences."""
        return self._graphs.capture(self._program(self._decode_shape(sequences), 0))

    def warm_up(self, seconds: float = 0.0) -> int:
        """Compile the kernels of steps of every size and capture some graphs; returns how many.

        Then decode steps of every capture size are captured, for as long as `seconds` are not over:
        those left are captured when they are first needed.
        """
        count = 0
        for shape in dict.fromkeys((*self._powers_of_two(), *self._prefill_shapes())):
            count += self._capture(shape, 0)
        end = time.perf_counter() + seconds
        for shape in self._every_decode_shape() if seconds else ():
            for buffer_index in range(BUFFER_COUNT):
                if time.perf_counter() > end:
                    return count
                count += self._capture(shape, buffer_index)
        return count

    def _capture(self, shape: StepShape, buffer_index: int) -> bool:
        make_buffers = partial(self._step_buffers, shape, buffer_index)
        return bool(self._graphs.get(shape, buffer_index, make_buffers).graphs)

    def _powers_of_two(self) -> list[StepShape]:
        """Decode steps of 1, 2, 4 ... sequences and of the most."""
        most = self.workspace.max_shape.num_seqs
        return [*map(self._decode_shape, _doubling(1, most))]

    def _every_decode_shape(self) -> list[StepShape]:
        """Decode steps of every capture size, those of short contexts first."""
        most = self.workspace.max_shape
        sizes = sorted({self._capture_size(count + 1) for count in range(most.num_seqs)})
        widest = most.block_table_width * self._block_tokens
        contexts = [MIN_TABLE_WIDTH * self._block_tokens * 4**power for power in range(8)]
        reached = [context for context in contexts if context < widest] + [widest]
        return [self._decode_shape(size, context) for context in reached for size in sizes]

    def _prefill_shapes(self) -> list[StepShape]:
        """Steps of prompts, small to large, of one sequence and of many: together, every kernel."""
        most = self.workspace.max_shape
        width = self._block_table_width(1)
        sizes = [size for size in (16, 64, self.captured_prefill) if 0 < size < most.num_tokens]
        return [
            StepShape(tokens, seqs, min(seqs, most.num_samples), width, gathers_samples=True)
            for tokens in (most.num_tokens, *sizes)
            for seqs in {1, min(tokens, most.num_seqs)}
        ]

    def close(self) -> None:
        """Destroy all graphs."""
        self._graphs.close()

    def _decode_shape(self, sequences: int, context: int = 1) -> StepShape:
        size = self._capture_size(sequences)
        width = self._block_table_width(context)
        return StepShape(size, size, size, width, decode_only=not self.batch_invariant)

    def _capture_size(self, count: int) -> int:
        return capture_size(count, self.graph_buckets or DEFAULT_GRAPH_BUCKETS)

    def _block_table_width(self, num_tokens: int) -> int:
        """The width of block tables where the longest context has this many tokens."""
        max_width = self.workspace.max_shape.block_table_width
        if self.batch_invariant:
            # The grid of attention follows from it, and must not depend on the other sequences.
            return max_width
        return block_table_width(-(-num_tokens // self._block_tokens), max_width)

    def _prepare(
        self,
        scheduled: Sequence[ScheduledSequence],
        totals: StepTotals,
        logprobs: bool,
        buffer_index: int,
    ) -> StepProgram:
        """Upload the inputs of a step; returns the program to launch."""
        num_tokens, num_samples = totals.num_tokens, totals.num_samples
        penalties = not totals.is_plain and any(
            sequence.num_samples and sequence.request.params.penalized for sequence in scheduled
        )
        # Decode attention on a GPU sums in another order than prefill: a batch-invariant step uses
        # one kernel for both, so that a sequence does not depend on prefill in the same step.
        decode_only = not self.batch_invariant and totals.decode_only
        padded = self._padded(num_tokens, len(scheduled), num_samples, decode_only=decode_only)
        shape = StepShape(
            *padded,
            self._block_table_width(totals.longest_context),
            gathers_samples=num_tokens != num_samples,
            penalties=penalties,
            masked=not totals.is_plain and _any_masked(scheduled),
            biased=not totals.is_plain and _any_biased(scheduled),
            logprobs=logprobs,
            decode_only=decode_only,
            adapted=self.model.shape.adapters is not None and totals.adapted,
        )
        program = self._program(shape, buffer_index)
        if self._recorder is not None:
            self._recorder.lap(recording.PREPARE)
        self._input_batch.upload(
            scheduled, program.layout, shape, buffer_index, recorder=self._recorder
        )
        return program

    def _padded(
        self, tokens: int, seqs: int, samples: int, *, decode_only: bool
    ) -> tuple[int, int, int]:
        """The sizes of a step with padding: few combinations where prefill joins decode on a GPU."""
        # Where every token is sampled, logits are not gathered: rows and samples are the same.
        equal = tokens == samples
        if decode_only or equal or self.batch_invariant or not self.device.capabilities.is_gpu:
            return tuple(map(self._capture_size, (tokens, seqs, samples)))  # type: ignore[return-value]
        most = self.workspace.max_shape
        rows = self._capture_size(tokens)
        if not self._captures_prefill(tokens):
            rows = -(-tokens // PREFILL_TOKENS_MULTIPLE) * PREFILL_TOKENS_MULTIPLE
        # Padding sequences cost nothing, and padding samples little beside the prefill.
        return (
            min(rows, most.num_tokens),
            min(capture_size(seqs, 1), most.num_seqs),
            min(capture_size(samples, 1), most.num_samples),
        )

    def _captures_prefill(self, tokens: int) -> bool:
        """Whether a step of this many tokens is a graph although some are of prefill."""
        if self.batch_invariant or not self.device.capabilities.is_gpu:
            return True
        return tokens <= self.captured_prefill or self._graphs.must_capture

    def _program(self, shape: StepShape, buffer_index: int) -> StepProgram:
        return self._graphs.get(
            shape,
            buffer_index,
            partial(self._step_buffers, shape, buffer_index),
            captures=shape.decode_only or self._captures_prefill(shape.num_tokens),
        )

    def _step_buffers(self, shape: StepShape, buffer_index: int) -> StepBuffers:
        if shape.penalties:
            self.workspace.allocate_penalties()
        return self.workspace.step_buffers(
            shape,
            buffer_index,
            self.kv.keys,
            self.kv.values,
            batch_invariant=self.batch_invariant,
            num_splits=self.num_splits,
        )


def _doubling(least: int, most: int) -> list[int]:
    """Powers of two times the least, and the most at the end."""
    values = [least]
    while values[-1] < most:
        values.append(min(2 * values[-1], most))
    return values


def _any_masked(scheduled: Sequence[ScheduledSequence]) -> bool:
    """Whether some token of any sequence may not be sampled."""
    return any(sequence.num_samples and sequence.request.params.masked for sequence in scheduled)


def _any_biased(scheduled: Sequence[ScheduledSequence]) -> bool:
    """Whether something is added to the logits of any sequence."""
    return any(sequence.num_samples and sequence.request.params.biased for sequence in scheduled)


def _split(model: Model, buffers: StepBuffers, count: int) -> list[Callable[[], None]]:
    """What queues a step, in up to `count` parts; masks that are still computed defer its sampling."""
    parts = model.parts(buffers, count)
    if not buffers.shape.num_samples or buffers.shape.defers_sampling:
        return parts
    last = parts[-1]

    def finish() -> None:
        last()
        sample_tokens(buffers)

    return [*parts[:-1], finish]
