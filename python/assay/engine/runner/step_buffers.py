"""The memory of a step: what it is told, its activations, and what it gives back.

Everything is allocated once, for the largest step. A step of fewer rows uses the beginning of
each array, so that a captured graph finds its memory where it was, and no step allocates.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from assay.engine.models.model_shape import ModelShape
from assay.runtime import Array, Device, dtypes, launching
from assay.runtime.dtypes import DType
from assay.runtime.layout import Layout, row_major

SAMPLING_INTEGERS = ("sample_rows", "top_k", "steps")
SAMPLING_REALS = ("temperature", "top_p", "min_p", "repetition", "presence", "frequency")


class Size(NamedTuple):
    """How large a step is: what a captured graph is made for."""

    rows: int
    """Tokens."""
    sequences: int
    samples: int
    """Rows whose next token is chosen."""
    columns: int
    """Blocks in a row of the block tables: the longest context that the step can have."""
    gathers: bool = False
    """Whether the sampled rows are not simply all rows in order."""
    penalties: bool = False
    logprobs: bool = False
    single: bool = False
    """Whether no sequence has more than one new token."""


class Step(NamedTuple):
    """The arrays that the operations of one size of step work on."""

    size: Size
    invariant: bool
    """Whether a row's result must not depend on the rows beside it."""
    split: int
    """In how many parts attention reads a long context; 0 leaves it to the device."""
    ids: Array
    chosen: Array
    """Tokens that the step before chose, for ids that stand for them."""
    positions: Array
    slots: Array
    query_starts: Array
    lengths: Array
    tables: Array
    sample_rows: Array | None
    """Rows that are sampled; None where they are all rows in order."""
    hidden: Array
    """What layers add to."""
    middle: Array
    """The same between attention and feed-forward part."""
    normed: Array
    qkv: Array
    queries: Array
    attended: Array
    inner: Array
    sampled: Array
    logits: Array
    sampling: dict[str, Array]
    counts: Array | None
    prompt_mask: Array | None
    tokens_out: Array
    logprobs_out: Array | None
    keys: tuple[Array, ...]
    values: tuple[Array, ...]

    @property
    def samples(self) -> int:
        """Rows whose next token is chosen."""
        return self.size.samples


def activation_type(device: Device) -> DType:
    """What activations are kept in: GPUs read and write half as much of bfloat16."""
    return dtypes.bfloat16 if device.kind == "cuda" else dtypes.float32


class Inputs:
    """One array of 32-bit words that holds everything a step is told, uploaded at once.

    The words lie in the order: seeds (two words each), token numbers, positions, slots, query
    starts, lengths, block tables, then what is told for each sampled row.
    """

    def __init__(self, size: Size) -> None:
        """Lay the parts out for a size of step."""
        rows, sequences, samples = size.rows, size.sequences, size.samples
        at = 0

        def part(words: int) -> slice:
            nonlocal at
            at += words
            return slice(at - words, at)

        self.seeds = part(2 * samples)
        self.ids = part(rows)
        books = at
        self.positions, self.slots = part(rows), part(rows)
        self.query_starts, self.lengths = part(sequences + 1), part(sequences)
        self.tables = part(sequences * size.columns)
        self.books = slice(books, at)
        """What the books of the KV cache write."""
        self.integers = {name: part(samples) for name in SAMPLING_INTEGERS}
        self.reals = {name: part(samples) for name in SAMPLING_REALS}
        self.words = at


SIDES = 2
"""Inputs and outputs are there twice, so that a step can be told while the one before it runs."""


class Workspace:
    """The memory of the largest step, cut to the size of each."""

    def __init__(
        self,
        device: Device,
        shape: ModelShape,
        *,
        rows: int,
        sequences: int,
        samples: int,
        table_width: int,
    ) -> None:
        """Allocate for steps of up to so many rows, sequences and sampled rows."""
        self.device = device
        self.shape = shape
        self.most = Size(rows, sequences, samples, table_width)
        words = Inputs(self.most).words
        self.staging = memoryview(array("i", bytes(4 * words)))
        """The host's side of the inputs."""
        self.staging_reals = self.staging.cast("B").cast("f")
        self.inputs = [self._array((words,), dtypes.int32) for _ in range(SIDES)]
        self.outputs = [self._array((2 * samples,), dtypes.int32) for _ in range(SIDES)]
        self.readback = memoryview(array("i", bytes(8 * samples)))
        """The host's side of the outputs: tokens, then the bits of their log-probabilities."""
        width, inner = shape.hidden, shape.inner
        attention = shape.heads * shape.head_dim
        kv = shape.kv_heads * shape.head_dim
        self.widths = {
            "hidden": width,
            "middle": width,
            "normed": width,
            "qkv": attention + 2 * kv,
            "queries": attention,
            "attended": attention,
            "inner": inner,
        }
        self.real = activation_type(device)
        self.rows = {
            name: self._array((rows, columns), self.real) for name, columns in self.widths.items()
        }
        self.sampled = self._array((samples, width), self.real)
        self.logits = self._array((samples, shape.vocabulary))
        self.counts: Array | None = None
        self.prompt_mask: Array | None = None

    def need_penalties(self) -> None:
        """Allocate what penalties need, when the first request asks for them."""
        if self.counts is None:
            extents = (self.most.samples, self.shape.vocabulary)
            self.counts = self._array(extents, dtypes.int32)
            self.prompt_mask = self._array(extents, dtypes.uint8)

    def step(
        self,
        size: Size,
        side: int,
        keys: tuple[Array, ...],
        values: tuple[Array, ...],
        *,
        invariant: bool,
        split: int,
    ) -> Step:
        """The arrays of one size of step, on one side of inputs and outputs."""
        inputs = Inputs(size)
        samples = size.samples
        words, outputs = self.inputs[side], self.outputs[side]
        before = self.outputs[1 - side]

        def integers(part: slice, *extents: int) -> Array:
            return _cut(words, dtypes.int32, extents or (part.stop - part.start,), part.start)

        sampling = {name: integers(inputs.integers[name]) for name in ("top_k", "steps")}
        for name, part in inputs.reals.items():
            sampling[name] = _cut(words, dtypes.float32, (samples,), part.start)
        sampling["seeds"] = _cut(words, dtypes.int64, (samples,), inputs.seeds.start)
        vocabulary = self.shape.vocabulary
        counts = prompt_mask = None
        if size.penalties and self.counts is not None and self.prompt_mask is not None:
            counts = _cut(self.counts, dtypes.int32, (samples, vocabulary))
            prompt_mask = _cut(self.prompt_mask, dtypes.uint8, (samples, vocabulary))
        return Step(
            size=size,
            invariant=invariant,
            split=split,
            ids=integers(inputs.ids),
            chosen=_cut(before, dtypes.int32, (self.most.samples,)),
            positions=integers(inputs.positions),
            slots=integers(inputs.slots),
            query_starts=integers(inputs.query_starts),
            lengths=integers(inputs.lengths),
            tables=integers(inputs.tables, size.sequences, size.columns),
            sample_rows=integers(inputs.integers["sample_rows"]) if size.gathers else None,
            sampled=_cut(self.sampled, self.real, (samples, self.shape.hidden)),
            logits=_cut(self.logits, dtypes.float32, (samples, vocabulary)),
            sampling=sampling,
            counts=counts,
            prompt_mask=prompt_mask,
            tokens_out=_cut(outputs, dtypes.int32, (samples,)),
            logprobs_out=_cut(outputs, dtypes.float32, (samples,), samples)
            if size.logprobs
            else None,
            keys=keys,
            values=values,
            **{
                name: _cut(array, self.real, (size.rows, self.widths[name]))
                for name, array in self.rows.items()
            },
        )

    def _array(self, shape: tuple[int, ...], dtype: DType = dtypes.float32) -> Array:
        return launching.empty(self.device, shape, dtype, "workspace")


def _cut(array: Array, dtype: DType, shape: tuple[int, ...], first: int = 0) -> Array:
    """The beginning of an array, or what follows its first words, as another shape and type."""
    layout = Layout(shape, row_major(shape, dtype.itemsize), array.offset + 4 * first)
    return Array(array.device, array.buffer, dtype, layout)


DEFAULT_BUCKETS = 8


def bucket(count: int, buckets: int = DEFAULT_BUCKETS) -> int:
    """The size that a graph is captured for: few sizes, and little padding at each.

    Up to `buckets` every size is one; beyond, there are about so many between a number and its
    double.

    >>> [bucket(count) for count in (0, 1, 5, 8, 9, 33, 100, 500)]
    [0, 1, 5, 8, 10, 36, 104, 512]
    >>> [bucket(count, 1) for count in (1, 2, 3, 5, 9, 100)]
    [1, 2, 4, 8, 16, 128]
    """
    if count <= buckets:
        return count
    step = 2
    while count > 2 * buckets * step:
        step *= 2
    return -(-count // step) * step


FEWEST_COLUMNS = 64


def columns_for(blocks: int, most: int) -> int:
    """How wide block tables are for contexts of up to so many blocks: few widths, four times apart.

    Kernels of attention are shaped by the longest context that tables can hold.

    >>> [columns_for(blocks, 1000) for blocks in (1, 64, 65, 257)]
    [64, 64, 256, 1000]
    """
    columns = FEWEST_COLUMNS
    while columns < blocks:
        columns *= 4
    return min(columns, most)
