"""One GEMM: FLOPs, bytes, tiles, waves and time.

A GEMM of M x K activations by N x K weights (rows, columns and depth below) is cut into output
tiles. Each CTA computes one tile, in waves over the SMs; split-K lets several CTAs share a tile along
K. Libraries choose the fastest of many tile shapes, so the time is the minimum over a few shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, by_definition, ceil, cited, floor, maximum, minimum, number, where
from assay.stack import works
from assay.stack.fits import approximate
from assay.stack.kernels import device, fitted, gemm_constants as constants, roofline
from assay.stack.kernels.combine import cold_share, declare_interval, exposed, overlap, sharp_maximum, transfer_time

scope = constants.scope

TILES = ((64, 64), (64, 128), (128, 128), (128, 256))
"""Output tiles, rows by columns; more shapes did not predict better."""

MIN_SPLIT_DEPTH = 128
"""The smallest K of a split-K slice."""

MAX_SPLITS = 32

MOST_OUTPUTS = 2.0**31
"""Outputs of the largest GEMM in the tables, 32,768 by 65,536."""

MOST_DEPTH = 2.0**17
"""Twice the largest K in the tables: beyond a few thousand, time is proportional to it."""

_GUIDE = "NVIDIA Matrix Multiplication Background User's Guide, DU-09799-001 2023"
_BOUNDS = cited(_GUIDE, "ch. 2 Math And Memory Bounds")
_STREAM_K = cited(
    "Osama et al. 2023, Stream-K: work-centric parallel decomposition for dense matrix-matrix "
    "multiplication on the GPU",
    "sec. 3.2 and 3.3, data-parallel and fixed-split",
)
_FORMATS = cited(works.FP8_FORMATS, "sec. 4, scaling")
_POWER = by_definition("operations over the rate that the power limit leaves")

# Constant operands toggle fewer wires: at the power limit such GEMMs ran this much faster.
_CONSTANT_DATA_GAIN = 0.04
_ONE = number("1")
# Split-K partial sums are fp32, written once and read once.
_PARTIAL_BYTES = number("8 byte")

_BANDWIDTH = device.memory_bandwidth


@dataclass(frozen=True)
class GemmShape:
    """Problem size and operands of a GEMM.

    `bits` is the operand width in the tensor core, which may exceed the width in memory. A
    footprint is the bytes touched between two uses of the weights or of the activations: it decides
    whether they are still in the L2 cache. `toggling` is 1 for random operands, as real ones are,
    and 0 for constant ones, which draw less power. `casting` is 1 where a separate kernel casts
    16-bit activations to the low-precision operand format, 0 where they arrive in that format.
    `groups` matrices of weights have equal parts of the rows each (grouped GEMM): their tiles fill
    waves together.
    """

    rows: Expression
    columns: Expression
    depth: Expression
    bits: Expression
    weight_element: Expression
    activation_element: Expression
    output_element: Expression
    weight_footprint: Expression
    activation_footprint: Expression
    toggling: Expression
    casting: Expression = _ONE
    groups: Expression | None = None


@dataclass(frozen=True)
class Gemm:
    """The variables of one declared GEMM."""

    flops: Variable
    size: Variable
    floor: Variable
    time: Variable
    clock_bound: Expression


def declare(scope: Scope, prefix: str, shape: GemmShape, *, what: str = "a GEMM", library: bool = False) -> Gemm:
    """Declare FLOPs, bytes and time of a GEMM in a scope, under names with a prefix."""
    flops = scope.declare(
        f"{prefix}flops, F [FLOP as GFLOP]: FLOPs of {what}",
        equals=number("2 FLOP") * shape.rows * shape.columns * shape.depth,
        reference=_BOUNDS,
        library=library,
    )
    weights = shape.columns * shape.depth * shape.weight_element
    if shape.groups is not None:
        weights = shape.groups * weights
    activations = shape.rows * shape.depth * shape.activation_element
    outputs = shape.rows * shape.columns * shape.output_element
    size = scope.declare(
        f"{prefix}size, S [byte as MB]: minimum bytes that {what} moves",
        equals=weights + activations + outputs,
        reference=_BOUNDS,
        library=library,
    )
    capacity = constants.reach_share * device.cache_capacity
    cold = weights * cold_share(shape.weight_footprint, capacity) + activations * cold_share(
        shape.activation_footprint, capacity
    )
    is_measured = (shape.rows * shape.columns <= MOST_OUTPUTS) & (shape.depth <= MOST_DEPTH)
    read_time = approximate(
        scope,
        f"{prefix}read_time, t_r [s as us]: time of {what} to read cold operands",
        transfer_time(cold, constants.read_share * _BANDWIDTH, constants.ramp),
        valid=is_measured,
        reference=fitted.FITTED,
        library=library,
    )
    write_time = approximate(
        scope,
        f"{prefix}write_time, t_w [s as us]: time of {what} to write the outputs",
        transfer_time(outputs, constants.read_share * _BANDWIDTH, constants.ramp),
        valid=is_measured,
        reference=fitted.FITTED,
        library=library,
    )
    multiple = device.rate_multiple(shape.bits)
    least = roofline.declare(scope, prefix, read=cold, flops=flops, multiple=multiple, what=what, library=library)
    sustained = where(shape.bits > 8, 1, constants.eight_bit_share) * constants.sustained_share
    clock = device.clock_of(library)
    data_gain = 1 + _CONSTANT_DATA_GAIN * (1 - shape.toggling)
    power_time = scope.declare(
        f"{prefix}power_time, t_P [s as us]: time of {what} under the power limit",
        equals=flops / (sustained * multiple * device.peak_flops * clock * data_gain),
        reference=_POWER,
        library=library,
    )
    limits = _Limits(shape, multiple, power_time, read_time, write_time)
    tiled = [_declare_tile(scope, prefix, limits, *tile, what, library) for tile in TILES]
    best = maximum(minimum(*tiled), least)
    sunk = shape.toggling * constants.throttle_depth * best / (best + constants.throttle_time)
    # A separate kernel casts the 16-bit activations.
    cast_size = shape.rows * shape.depth * (number("2 byte") + shape.activation_element)
    rows_cast = constants.cast_time + shape.rows * constants.cast_row_time
    cast = shape.casting * (rows_cast + cast_size / (constants.cast_share * _BANDWIDTH))
    casting_time = scope.declare(
        f"{prefix}casting_time, t_8 [s as us]: time to quantize the activations of {what}",
        equals=where(shape.bits > 8, number("0 s"), cast),
        reference=_FORMATS,
        library=library,
    )
    time = approximate(
        scope,
        f"{prefix}time, t [s as us]: time of {what}, with the fastest tile shape",
        constants.launch_time + best * (1 + sunk) + casting_time,
        valid=is_measured,
        reference=fitted.FITTED,
        library=library,
    )
    clock_bound = device.clock_bound(power_time, time, constants.overlap_exponent)
    return Gemm(flops, size, least, time, clock_bound)


@dataclass(frozen=True)
class _Limits:
    """Bounds of a GEMM that do not depend on the tile shape."""

    shape: GemmShape
    multiple: Expression
    power_time: Variable
    read_time: Variable
    write_time: Variable


def _declare_tile(
    scope: Scope, prefix: str, limits: _Limits, rows: int, columns: int, what: str, library: bool
) -> Variable:
    shape = limits.shape
    tiles = ceil(shape.rows / rows) * ceil(shape.columns / columns)
    operands = rows * shape.activation_element + columns * shape.weight_element
    computing = number(f"{2 * rows * columns} FLOP") / constants.tile_share
    step_ratio = where(shape.bits > 8, 1, constants.eight_bit_step)
    stepping = constants.step_work * step_ratio / limits.multiple
    feeding = operands * constants.ingest_intensity
    per_depth = maximum(computing / limits.multiple + feeding, stepping) / device.tile_peak
    cache_time = tiles * shape.depth * operands * constants.cache_intensity / device.peak_flops

    def with_splits(splits: Expression | None = None) -> Expression:
        ctas = tiles if splits is None else tiles * splits
        depth = shape.depth if splits is None else shape.depth / splits
        busy = waves_of(ctas, constants.tail_cost) * depth * per_depth
        inner = sharp_maximum(busy, cache_time, limits.power_time)
        time = overlap(inner, limits.read_time, constants.overlap_exponent) + constants.block_time * ctas
        if splits is not None:
            reduction = shape.rows * shape.columns * _PARTIAL_BYTES * splits / (constants.read_share * _BANDWIDTH)
            time = time + where(splits > 1, constants.split_time + reduction, number("0 s"))
        return exposed(time, limits.write_time, constants.write_exposure)

    return scope.declare(
        f"{prefix}tile_{rows}x{columns}.time, t_t [s as us]: time of {what} in tiles of {rows} by {columns}",
        equals=minimum(with_splits(), *(with_splits(splits) for splits in _split_counts(tiles, shape.depth))),
        reference=_STREAM_K,
        library=library,
    )


def _split_counts(tiles: Expression, depth: Expression) -> list[Expression]:
    """Candidate split-K factors: those that fill one, two or four waves."""
    most = minimum(MAX_SPLITS, floor(depth / MIN_SPLIT_DEPTH))
    return [maximum(1, minimum(floor(waves * device.multiprocessors / tiles), most)) for waves in (1, 2, 4)]


def waves_of(ctas: Expression, tail_cost: Expression) -> Expression:
    """Waves of CTAs at one CTA per SM (wave quantization).

    A partial last wave costs `tail_cost` of a full one plus the rest in proportion to its fill: 1
    where CTAs wait for each other, 0 where finer tiles balance the load.
    """
    waves = ctas / device.multiprocessors
    rest = waves - floor(waves)
    tail = where(rest > 0, tail_cost + (1 - tail_cost) * rest, 0)
    return maximum(floor(waves) + tail, 1)


def _free(heading: str) -> Variable:
    return fitted.free(constants.scope, heading)


shape = GemmShape(
    rows=_free("rows, m: rows of the activations: tokens"),
    columns=_free("columns, n: columns of the outputs: features out"),
    depth=_free("depth, k: length of the sums: features in"),
    bits=_free("bits, b: bits of an operand in the tensor core"),
    weight_element=_free("weight_element, b_W [byte]: bytes of a weight"),
    activation_element=_free("activation_element, b_A [byte]: bytes of an activation"),
    output_element=_free("output_element, b_C [byte]: bytes of an output"),
    weight_footprint=_free("weight_footprint, f_W [byte]: bytes touched between two uses of the weights"),
    activation_footprint=_free("activation_footprint, f_A [byte]: bytes touched between two uses of the activations"),
    toggling=fitted.free(constants.scope, "toggling, u: 1 for random operands, 0 for constant ones", fitted.SHARE),
    casting=fitted.free(
        constants.scope, "casting, c: 1 where activations are quantized first, 0 otherwise", fitted.SHARE
    ),
)
standalone = declare(constants.scope, "", shape, library=True)
"""A GEMM of any shape."""
declare_interval(constants.scope, standalone.time, where(shape.bits > 8, constants.spread, constants.eight_bit_spread))
