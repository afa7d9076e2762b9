"""Grouped GEMM of experts: which weights a batch touches, FLOPs, bytes and time.

Tokens are routed to experts uniformly at random. Each touched expert's rows fill tiles of
their own, so that few tokens per expert cost as much as a tile of them. Where ranks have some
of the experts each, all of them wait for the one with most.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, by_definition, ceil, cited, maximum, minimum, number, sqrt, where
from assay.stack import works
from assay.stack.fits import approximate
from assay.stack.kernels import device, fitted, gemm_constants as constants, roofline
from assay.stack.kernels.combine import declare_interval, overlap, transfer_time

scope = Scope("kernels.experts", "Grouped GEMM of experts")

MOST_TOKENS = 2.0**16
"""The most tokens of one grouped GEMM in the tables."""

INSTRUCTION_ROWS = 16
"""Rows of a tensor-core instruction (PTX ISA, mma.m16n8k16), which an expert's weights are multiplied with at least."""

_SWITCH = cited(works.SWITCH_TRANSFORMERS, "sec. 2.1")
_OCCUPANCY = cited(
    "Feller 1968, An introduction to probability theory and its applications, vol. 1, 3rd edition",
    "ch. IV on occupancy",
)
_BLOCK_SCALES = cited(works.DEEPSEEK_V3, "sec. 3.3.2, partial sums are scaled outside the tensor cores")
_ROOFLINE = cited(works.ROOFLINE, "The Roofline Model")
_ADDITIONS = cited(
    "vLLM 0.11.1, csrc/quantization/gptq_marlin/dequant.h",
    "two instructions a weight; their energy is that of row sums of 16-bit elements on an H200, "
    "assay.validate.fitting.power",
)

launch_time = fitted.constant(scope, "launch_time, t_0 [s as us]: time of a grouped GEMM without work", (0, None))
sustained_share = fitted.constant(scope, "sustained_share, r_P: rate of full tiles, over the peak", fitted.EFFICIENCY)
read_share = fitted.constant(
    scope, "read_share, r_r: achieved bandwidth of expert weights, over the data sheet's", fitted.EFFICIENCY
)
activation_share = fitted.constant(
    scope, "activation_share, r_a: achieved bandwidth of token permutation, over the memory's"
)
eight_bit_share = fitted.constant(
    scope,
    "eight_bit_share, r_8: rate of full tiles of 8-bit GEMMs with block scales over that without",
    fitted.EFFICIENCY,
)
eight_bit_time = fitted.constant(
    scope, "eight_bit_time, t_8 [s as us]: time of casting to 8 bits and of scales", (0, None)
)
tile_rows = fitted.constant(scope, "tile_rows, b_m: rows of a tile of one expert", (1, None))
untouched_share = scope.declare(
    "untouched_share, f_u: share of experts without a token whose weights are read all the same, by kernels that pad "
    "every expert's tokens to one length. Unless given, 0",
    bounds=(0, 1),
    equals=number("0"),
    reference=by_definition("grouped kernels skip experts without a token"),
)
passed_share = scope.declare(
    "passed_share, f_p: cost of a token's row that is of another rank's expert, over one pass over its output: kernels "
    "that keep a row for every choice of a token write zeros there, which later passes read. Unless given, 0",
    bounds=(0, None),
    equals=number("0"),
    reference=by_definition("kernels with the rows of their own experts alone"),
)
conversion_rows = scope.declare(
    "conversion_rows, n_v: rows whose multiplication switches as much energy as two instructions by weight, which "
    "conversion from a narrower format to 16 bits takes",
    bounds=(0, None),
    equals=number("24"),
    reference=_ADDITIONS,
)
spread = fitted.spread(scope)
eight_bit_spread = fitted.spread(scope, "eight_bit_spread", "of 8-bit GEMMs")


_ONE = number("1")
_NONE = number("0")


@dataclass(frozen=True)
class ExpertsShape:
    """One GEMM per expert on the GPU.

    `tokens` are those of the batch that choose among these `experts`, `chosen` how many of them
    each gets on average; `columns` and `depth` are the dimensions of one expert's weights. `ranks` have
    as many experts each, and `largest` is the expected largest of as many standard normal variates;
    `passed` are rows of the others' experts that this one has too.
    """

    tokens: Expression
    experts: Expression
    chosen: Expression
    columns: Expression
    depth: Expression
    bits: Expression
    weight_element: Expression
    activation_element: Expression
    ranks: Expression = _ONE
    largest: Expression = _NONE
    passed: Expression = _NONE


@dataclass(frozen=True)
class Experts:
    """The variables of one declared grouped GEMM of experts."""

    touched: Variable
    flops: Variable
    size: Variable
    floor: Variable
    time: Variable
    clock_bound: Expression
    padded: Expression
    """FLOPs with those of rows that hold no token, and as many as the conversion of weights switches energy for."""
    waited: Expression
    """The roofline of the busiest rank, which all others wait for."""
    passing: Expression
    """The part of the time in which rows without a token of this rank are passed over."""


def declare(into: Scope, prefix: str, shape: ExpertsShape, *, what: str = "experts", library: bool = False) -> Experts:
    """Declare touched experts, FLOPs, bytes and time of a grouped GEMM."""
    touched = into.declare(
        f"{prefix}touched, E_t: active experts of {what}: those with at least one token",
        equals=shape.experts * (1 - (1 - shape.chosen / shape.experts) ** shape.tokens),
        reference=_OCCUPANCY,
        library=library,
    )
    busiest = into.declare(
        f"{prefix}busiest, E_b: active experts of {what} on the busiest of the ranks that have some of them each",
        equals=minimum(touched + shape.largest * _deviation(shape), shape.experts),
        reference=_OCCUPANCY,
        library=library,
    )
    rows = shape.tokens * shape.chosen
    flops = into.declare(
        f"{prefix}flops, F [FLOP as GFLOP]: FLOPs of {what}",
        equals=number("2 FLOP") * rows * shape.columns * shape.depth,
        reference=_SWITCH,
        library=library,
    )
    expert = shape.columns * shape.depth * shape.weight_element
    read = touched + untouched_share * (shape.experts - touched)
    waited = busiest + untouched_share * (shape.experts - busiest)
    idle = passed_share * shape.passed + untouched_share * read * tile_rows
    activations = rows * (shape.columns + shape.depth) * shape.activation_element
    passes = idle * shape.columns * shape.activation_element
    passing = passes / (activation_share * device.memory_bandwidth)
    size = into.declare(
        f"{prefix}size, S [byte as MB]: bytes of the weights that are read and the activations of {what}",
        equals=read * expert + activations + passes,
        reference=_SWITCH,
        library=library,
    )
    # Nearly every active expert has a partial last tile, on average half full; padded ones have a whole tile more.
    # Those that pad have as many rows as all ranks together: they do not know which are their own.
    multiplied = rows + untouched_share * shape.passed
    padded = maximum(
        multiplied + waited * tile_rows * (1 + untouched_share) / 2, ceil(multiplied / tile_rows) * tile_rows
    )
    multiple = device.rate_multiple(shape.bits)
    least = roofline.declare(
        into, prefix, read=read * expert, flops=flops, multiple=multiple, what=what, library=library
    )
    waited_least = maximum(least, waited * expert / device.memory_bandwidth)
    rate = sustained_share * multiple * device.peak_flops * device.clock_of(library)
    issued = number("2 FLOP") * padded * shape.columns * shape.depth
    tile_time = issued / rate
    scaling_time = into.declare(
        f"{prefix}scaling_time, t_s [s as us]: time that the block scales of 8-bit operands add to the tiles of {what}",
        equals=where(shape.bits > 8, number("0 s"), tile_time * (1 / eight_bit_share - 1)),
        reference=_BLOCK_SCALES,
        library=library,
    )
    compute_time = into.declare(
        f"{prefix}compute_time, t_c [s as us]: time of the tiles of {what}",
        equals=tile_time + scaling_time,
        reference=_ROOFLINE,
        library=library,
    )
    read_time = approximate(
        into,
        f"{prefix}read_time, t_r [s as us]: time to read the weights of {what}",
        transfer_time(waited * expert, read_share * device.memory_bandwidth, constants.ramp),
        valid=shape.tokens <= MOST_TOKENS,
        reference=fitted.FITTED,
        library=library,
    )
    time = approximate(
        into,
        f"{prefix}time, t [s as us]: time of {what}",
        launch_time
        + where(shape.bits > 8, number("0 s"), eight_bit_time)
        + maximum(overlap(compute_time, read_time, constants.overlap_exponent), waited_least)
        + activations / (activation_share * device.memory_bandwidth)
        + passing,
        valid=shape.tokens <= MOST_TOKENS,
        reference=fitted.FITTED,
        library=library,
    )
    clock_bound = device.clock_bound(compute_time, time, constants.overlap_exponent)
    # Tensor cores multiply whole instructions: a touched expert has one at least, and a last one that is half full.
    instructed = maximum(touched * INSTRUCTION_ROWS, rows + touched * INSTRUCTION_ROWS / 2)
    is_converted = (shape.bits > 8) & (shape.weight_element < number("2 byte"))
    converted = where(is_converted, conversion_rows * maximum(touched, rows / tile_rows), 0)
    switched = number("2 FLOP") * (instructed + converted) * shape.columns * shape.depth
    padding = maximum(where(untouched_share > 0, issued, switched) - flops, number("0 FLOP"))
    return Experts(touched, flops, size, least, time, clock_bound, flops + padding, waited_least, passing)


def _deviation(shape: ExpertsShape) -> Expression:
    """Standard deviation of the active experts of a rank, where each token chooses different ones among all ranks."""
    everywhere = shape.ranks * shape.experts
    idle = (1 - shape.chosen / shape.experts) ** shape.tokens
    other = 1 - shape.ranks * shape.chosen / maximum(everywhere - 1, 1)
    both_idle = idle * maximum(other, 0) ** shape.tokens
    pairs = shape.experts * (shape.experts - 1) * (both_idle - idle**2)
    return sqrt(maximum(shape.experts * idle * (1 - idle) + pairs, 0))


def _free(heading: str) -> Variable:
    return fitted.free(scope, heading)


shape = ExpertsShape(
    tokens=_free("tokens, n: tokens of the batch"),
    experts=_free("experts, E: experts whose weights are on the GPU"),
    chosen=_free("chosen, k: experts per token (top-k)"),
    columns=_free("columns, n_c: features out of one expert's GEMM"),
    depth=_free("depth, n_k: features into one expert's GEMM"),
    bits=_free("bits, b: bits of an operand in the tensor core"),
    weight_element=_free("weight_element, b_W [byte]: bytes of a weight"),
    activation_element=_free("activation_element, b_A [byte]: bytes of an activation"),
)
standalone = declare(scope, "", shape, library=True)
"""A grouped GEMM of experts of any shape."""
declare_interval(scope, standalone.time, where(shape.bits > 8, spread, eight_bit_spread))
