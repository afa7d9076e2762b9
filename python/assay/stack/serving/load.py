"""Tokens of an iteration, and the sum of the work of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.model import Expression, Reference, Variable, cited, maximum, minimum, number, where
from assay.stack import works
from assay.stack.kernels import gemm
from assay.stack.serving import deployment as d, engine
from assay.stack.serving.deployment import ONE_TOKEN, scope

_ORCA = cited(works.ORCA, "sec. 3 and 4")
SUM = cited(works.CUDA_GUIDE, "streams: commands execute in order")

NOTHING = number("0")
ONE = number("1")
NO_TIME = number("0 s")
NO_FLOPS = number("0 FLOP")
BYTE = number("1 byte")
BITS_16 = number("16")
BYTES_16_BIT = number("2 byte")
COLD = number("1 TB")
"""An iteration touches all its bytes between two uses of a weight: weights always miss in L2."""


@dataclass(frozen=True)
class Work:
    """Time, bytes and operations of kernels on one GPU.

    `floor` is the least time, the roofline's; `clock_bound` is the part of the time that grows as
    the power limit lowers the clock, and `padding` counts FLOPs of tensor-core tiles on rows that
    hold nothing: they switch too.
    """

    time: Expression
    size: Expression
    flops: Expression
    floor: Expression = NO_TIME
    clock_bound: Expression = NO_TIME
    padding: Expression = NO_FLOPS

    def __add__(self, other: Work) -> Work:
        return Work(
            self.time + other.time,
            self.size + other.size,
            self.flops + other.flops,
            self.floor + other.floor,
            self.clock_bound + other.clock_bound,
            self.padding + other.padding,
        )

    def times(self, count: Expression) -> Work:
        """The same work so many times."""
        return Work(
            count * self.time,
            count * self.size,
            count * self.flops,
            count * self.floor,
            count * self.clock_bound,
            count * self.padding,
        )

    def slowed(self, factor: Expression) -> Work:
        """The same work with so many times the time above its floor."""
        time = self.floor + factor * (self.time - self.floor)
        return replace(self, time=time, clock_bound=self.clock_bound * time / self.time)


NO_WORK = Work(NO_TIME, number("0 byte"), NO_FLOPS)


@dataclass(frozen=True)
class Load:
    """Requests and tokens of an iteration, over all attention replicas; None where absent.

    `queries` are the tokens of a decoding request, None for one; `optional` says that there may be
    no decoding request or no prompt token, so that their kernels count only where there are some.
    """

    decoding: Expression | None
    context: Expression
    prompt_tokens: Expression | None
    prompt: Expression
    queries: Expression | None = None
    optional: bool = False
    context_ranks: Expression | None = None
    """GPUs that each hold a part of every context, and merge their outputs; None for one."""
    unpacking: Expression | None = None
    """Time to dequantize a weight before its GEMM, None where weights are multiplied as stored."""
    head_element: Expression | None = None
    """Bytes of a stored weight of the output projection, None for 16 bits."""


class Step:
    """One micro-batch of an iteration: its tokens, total and on the busiest attention replica.

    An iteration is one micro-batch unless its engine overlaps several.
    An itemized step declares the work of each operation of a layer as variables of its own.
    """

    def __init__(self, prefix: str, what: str, load: Load, *, itemized: bool = False) -> None:
        """Declare the tokens."""
        self.prefix, self.what, self.load, self.itemized = prefix, what, load, itemized
        self.decoding = NOTHING if load.decoding is None else load.decoding / d.micro_batches
        self.queries = ONE if load.queries is None else load.queries
        self.prompt_tokens = NOTHING if load.prompt_tokens is None else load.prompt_tokens / d.micro_batches
        self.tokens = self.declare(
            f"tokens, n: tokens of a micro-batch of {what}",
            self._with_queries(self.decoding) + self.prompt_tokens,
            _ORCA,
        )
        # A prompt is not split over replicas: its replica determines the time.
        self.own_prompts = maximum(
            self.prompt_tokens / d.attention_replicas, minimum(self.prompt_tokens, load.prompt / ONE_TOKEN)
        )
        self.own_decoding = self.decoding / d.attention_replicas
        self.own = self.declare(
            f"replica_tokens, n_r: tokens of a micro-batch of {what} on the busiest attention replica",
            self._with_queries(self.own_decoding) + self.own_prompts,
            _ORCA,
        )

    def _with_queries(self, requests: Expression) -> Expression:
        return requests if self.load.queries is None else requests * self.load.queries

    @property
    def sampled(self) -> Expression:
        """Tokens whose logits are computed: those that decode, and one for each finished prompt."""
        prompts = self.prompt_tokens / maximum(self.load.prompt / ONE_TOKEN, 1)
        return self._with_queries(self.decoding) + prompts

    def item(self, name: str, what: str, work: Work) -> Work:
        """The work of an operation in one layer, as variables where the step is itemized."""
        if not self.itemized:
            return work
        parts = {
            "time": ("t [s as ms]", work.time),
            "floor": ("t_min [s as ms]", work.floor),
            "size": ("S [byte as GB]", work.size),
            "flops": ("F [FLOP as TFLOP]", work.flops),
        }
        declared = {
            part: self.declare(f"operation.{name}.{part}, {symbol}: {part} of {what} in {self.what}", equals, SUM)
            for part, (symbol, equals) in parts.items()
            # Passes have no products and no floor.
            if equals is not NO_TIME and equals is not NO_FLOPS
        }
        return replace(work, **declared)

    def declare(self, heading: str, equals: Expression, reference: Reference) -> Variable:
        """Declare a variable of this iteration."""
        return scope.declare(f"{self.prefix}{heading}", equals=equals, reference=reference)

    def gemm(
        self,
        name: str,
        what: str,
        rows: Expression,
        columns: Expression,
        depth: Expression,
        in_16_bits: bool = False,
        element: Expression | None = None,
    ) -> Work:
        """Declare a GEMM with weights; `in_16_bits` keeps 16-bit operands, `element` their bytes."""
        bits = BITS_16 if in_16_bits else d.compute_bits
        stored = element if element is not None else (BYTES_16_BIT if in_16_bits else d.weight_bytes)
        shape = gemm.GemmShape(
            rows=maximum(rows, 1),
            columns=maximum(columns, 1),
            depth=maximum(depth, 1),
            bits=bits,
            weight_element=stored,
            activation_element=bits / 8 * BYTE,
            output_element=BYTES_16_BIT,
            weight_footprint=COLD,
            activation_footprint=maximum(rows, 1) * maximum(depth, 1) * BYTES_16_BIT,
            toggling=number("1"),
            casting=engine.casting,
        )
        kernel = gemm.declare(scope, f"{self.prefix}{name}.", shape, what=f"{what} in {self.what}")
        time: Expression = kernel.time
        if self.load.unpacking is not None:
            time = time + shape.columns * shape.depth * self.load.unpacking
        return Work(time, kernel.size, kernel.flops, kernel.floor, kernel.clock_bound)


def only_where(condition: Expression, work: Work) -> Work:
    """Work that is zero for models without the feature."""
    return Work(
        where(condition, work.time, NO_TIME),
        where(condition, work.size, NO_WORK.size),
        where(condition, work.flops, NO_WORK.flops),
        where(condition, work.floor, NO_TIME),
        where(condition, work.clock_bound, NO_TIME),
        where(condition, work.padding, NO_FLOPS),
    )
