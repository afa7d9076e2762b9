"""Grouped GEMM of experts: which weights a batch touches, FLOPs, bytes and time.

Tokens are routed to experts uniformly at random. Each touched expert's rows fill tiles of
their own, so that few tokens per expert cost as much as a tile of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, by_definition, ceil, cited, maximum, number, where
from assay.stack import works
from assay.stack.fits import approximate
from assay.stack.kernels import device, fitted, gemm_constants as constants, roofline
from assay.stack.kernels.combine import declare_interval, overlap, transfer_time

scope = Scope("kernels.experts", "Grouped GEMM of experts")

MOST_TOKENS = 2.0**16
"""The most tokens of one grouped GEMM in the tables."""

_SWITCH = cited(works.SWITCH_TRANSFORMERS, "sec. 2.1")
_OCCUPANCY = cited(
    "Feller 1968, An introduction to probability theory and its applications, vol. 1, 3rd edition",
    "ch. IV on occupancy",
)
_BLOCK_SCALES = cited(works.DEEPSEEK_V3, "sec. 3.3.2, partial sums are scaled outside the tensor cores")
_ROOFLINE = cited(works.ROOFLINE, "The Roofline Model")

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
spread = fitted.spread(scope)
eight_bit_spread = fitted.spread(scope, "eight_bit_spread", "of 8-bit GEMMs")


@dataclass(frozen=True)
class ExpertsShape:
    """One GEMM per expert on the GPU.

    `tokens` are those of the batch that choose among these `experts`, `chosen` how many of them
    each gets on average; `columns` and `depth` are the dimensions of one expert's weights.
    """

    tokens: Expression
    experts: Expression
    chosen: Expression
    columns: Expression
    depth: Expression
    bits: Expression
    weight_element: Expression
    activation_element: Expression


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
    """FLOPs with those of rows that hold no token, of kernels that pad every expert's tokens."""


def declare(into: Scope, prefix: str, shape: ExpertsShape, *, what: str = "experts", library: bool = False) -> Experts:
    """Declare touched experts, FLOPs, bytes and time of a grouped GEMM."""
    touched = into.declare(
        f"{prefix}touched, E_t: active experts of {what}: those with at least one token",
        equals=shape.experts * (1 - (1 - shape.chosen / shape.experts) ** shape.tokens),
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
    read = touched + untouched_share * (shape.experts - touched)
    weights = read * shape.columns * shape.depth * shape.weight_element
    activations = rows * (shape.columns + shape.depth) * shape.activation_element
    size = into.declare(
        f"{prefix}size, S [byte as MB]: bytes of the weights that are read and the activations of {what}",
        equals=weights + activations,
        reference=_SWITCH,
        library=library,
    )
    # Nearly every active expert has a partial last tile, on average half full; padded ones have a whole tile more.
    padded = maximum(rows + read * tile_rows * (1 + untouched_share) / 2, ceil(rows / tile_rows) * tile_rows)
    multiple = device.rate_multiple(shape.bits)
    least = roofline.declare(into, prefix, read=weights, flops=flops, multiple=multiple, what=what, library=library)
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
        transfer_time(weights, read_share * device.memory_bandwidth, constants.ramp),
        valid=shape.tokens <= MOST_TOKENS,
        reference=fitted.FITTED,
        library=library,
    )
    time = approximate(
        into,
        f"{prefix}time, t [s as us]: time of {what}",
        launch_time
        + where(shape.bits > 8, number("0 s"), eight_bit_time)
        + maximum(overlap(compute_time, read_time, constants.overlap_exponent), least)
        + activations / (activation_share * device.memory_bandwidth),
        valid=shape.tokens <= MOST_TOKENS,
        reference=fitted.FITTED,
        library=library,
    )
    clock_bound = device.clock_bound(compute_time, time, constants.overlap_exponent)
    padding = untouched_share * maximum(issued - flops, number("0 FLOP"))
    return Experts(touched, flops, size, least, time, clock_bound, flops + padding)


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
