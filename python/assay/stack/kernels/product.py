"""One matrix product: FLOPs, bytes, tiles, waves and time.

A product of (rows x depth) activations by (columns x depth) weights is cut into output tiles.
Blocks of threads take a tile each, wave after wave; several may share one along the depth. The
library has many tile shapes and takes the one that ends first, so the time is the least over a
few shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import (
    Expression,
    Scope,
    Variable,
    by_definition,
    ceil,
    cited,
    floor,
    maximum,
    minimum,
    number,
    where,
)
from assay.stack.kernels import device, fitted, gemm
from assay.stack.kernels.combine import (
    cold_share,
    declare_interval,
    exposed,
    overlap,
    sharp_maximum,
    transfer_time,
)

TILES = ((64, 64), (64, 128), (128, 128), (128, 256))
"""Output tiles, rows by columns; more shapes did not predict better."""

LEAST_DEPTH = 128
"""Depth below which a part is not worth a block."""

MOST_PARTS = 32

_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures",
    "The Roofline Model",
)
_GUIDE = "NVIDIA Matrix Multiplication Background User's Guide, DU-09799-001 2023"
_BOUNDS = cited(_GUIDE, "ch. 2 Math And Memory Bounds")
_TILES = cited(_GUIDE, "sec. 2.3 Typical Tile Dimensions In cuBLAS And Performance")
_STREAM_K = cited(
    "Osama et al. 2023, Stream-K: work-centric parallel decomposition for dense matrix-matrix "
    "multiplication on the GPU",
    "sec. 3.2 and 3.3, data-parallel and fixed-split",
)
_POWER = by_definition("operations over the rate that the power limit leaves")

# Constant operands toggle fewer wires: such products ran this much faster at the power limit.
_RELIEF = 0.04
# The clock sinks over milliseconds: the power controller averages.
_HORIZON = number("2 ms")
_WHOLE = number("1")
# Parts are kept in 32 bits, written once and read once.
_PART = number("8 byte")

_BANDWIDTH = device.memory_bandwidth


@dataclass(frozen=True)
class ProductShape:
    """What is multiplied.

    `bits` is the width of the operands inside the tensor core, which may be more than what a
    weight takes in memory. A footprint is what the GPU touches between two uses of the weights,
    or of the activations: it decides whether they are still in the cache. `toggling` is 1 for
    operands that look random, as real ones do, and 0 for constant ones, which draw less power.
    `casting` is 1 where activations of a narrow product come in 16 bits and are cast by a kernel
    of its own, 0 where they come narrow.
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
    casting: Expression = _WHOLE


@dataclass(frozen=True)
class Product:
    """The variables of one declared product."""

    flops: Variable
    size: Variable
    time: Variable


def declare(
    scope: Scope,
    prefix: str,
    shape: ProductShape,
    *,
    what: str = "a product",
    library: bool = False,
) -> Product:
    """Declare FLOPs, bytes and time of a product in a scope, under names with a prefix."""
    flops = scope.variable(
        f"{prefix}flops", "F", "FLOP", f"floating-point operations of {what}", display="GFLOP",
        equals=number("2 FLOP") * shape.rows * shape.columns * shape.depth, reference=_BOUNDS,
        library=library,
    )  # fmt: skip
    weights = shape.columns * shape.depth * shape.weight_element
    activations = shape.rows * shape.depth * shape.activation_element
    outputs = shape.rows * shape.columns * shape.output_element
    size = scope.variable(
        f"{prefix}size", "S", "byte", f"least bytes that {what} moves", display="MB",
        equals=weights + activations + outputs, reference=_BOUNDS, library=library,
    )  # fmt: skip
    capacity = gemm.reach_share * device.cache_capacity
    cold = weights * cold_share(shape.weight_footprint, capacity) + activations * cold_share(
        shape.activation_footprint, capacity
    )
    read_time = scope.variable(
        f"{prefix}read_time", "t_r", "s", f"time of {what} to read cold operands", display="us",
        equals=transfer_time(cold, gemm.read_share * _BANDWIDTH, gemm.ramp), reference=_ROOFLINE,
        library=library,
    )  # fmt: skip
    write_time = scope.variable(
        f"{prefix}write_time", "t_w", "s", f"time of {what} to write the outputs", display="us",
        equals=transfer_time(outputs, gemm.read_share * _BANDWIDTH, gemm.ramp),
        reference=_ROOFLINE, library=library,
    )  # fmt: skip
    multiple = device.rate_multiple(shape.bits)
    sustained = where(shape.bits > 8, 1, gemm.eight_bit_share) * gemm.sustained_share
    relief = 1 + _RELIEF * (1 - shape.toggling)
    power_time = scope.variable(
        f"{prefix}power_time", "t_P", "s", f"time of {what} under the power limit", display="us",
        equals=flops / (sustained * multiple * device.peak_flops * device.clock_ratio * relief),
        reference=_POWER, library=library,
    )  # fmt: skip
    limits = _Limits(shape, multiple, power_time, read_time, write_time)
    tiled = [_declare_tile(scope, prefix, limits, *tile, what, library) for tile in TILES]
    best = minimum(*tiled)
    sunk = shape.toggling * gemm.throttle_depth * best / (best + _HORIZON)
    # Activations come in 16 bits and are cast by a kernel of its own.
    cast_size = shape.rows * shape.depth * (number("2 byte") + shape.activation_element)
    rows_cast = gemm.cast_time + shape.rows * gemm.cast_row_time
    cast = shape.casting * (rows_cast + cast_size / (gemm.cast_share * _BANDWIDTH))
    time = scope.variable(
        f"{prefix}time", "t", "s", f"time of {what}, in the tiles that end first", display="us",
        equals=gemm.launch_time + best * (1 + sunk) + where(shape.bits > 8, number("0 s"), cast),
        reference=_TILES, library=library,
    )  # fmt: skip
    return Product(flops, size, time)


@dataclass(frozen=True)
class _Limits:
    """What bounds a product whatever its tiles."""

    shape: ProductShape
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
    computing = number(f"{2 * rows * columns} FLOP") / gemm.tile_share
    narrow = where(shape.bits > 8, 1, gemm.eight_bit_step)
    stepping = gemm.step_work * narrow / limits.multiple
    feeding = operands * gemm.ingest_intensity
    per_depth = maximum(computing / limits.multiple + feeding, stepping) / device.tile_peak
    cache_time = tiles * shape.depth * operands * gemm.cache_intensity / device.peak_flops

    def in_parts(parts: Expression | None = None) -> Expression:
        blocks = tiles if parts is None else tiles * parts
        depth = shape.depth if parts is None else shape.depth / parts
        busy = waves_of(blocks, gemm.tail_cost) * depth * per_depth
        inner = sharp_maximum(busy, cache_time, limits.power_time)
        time = overlap(inner, limits.read_time, gemm.overlap_exponent) + gemm.block_time * blocks
        if parts is not None:
            joined = shape.rows * shape.columns * _PART * parts / (gemm.read_share * _BANDWIDTH)
            time = time + where(parts > 1, gemm.split_time + joined, number("0 s"))
        return exposed(time, limits.write_time, gemm.write_exposure)

    return scope.variable(
        f"{prefix}tile_{rows}x{columns}.time", "t_t", "s",
        f"time of {what} in tiles of {rows} by {columns}", display="us",
        equals=minimum(in_parts(), *(in_parts(parts) for parts in _splits(tiles, shape.depth))),
        reference=_STREAM_K, library=library,
    )  # fmt: skip


def _splits(tiles: Expression, depth: Expression) -> list[Expression]:
    """Into how many parts tiles may be cut: as many as fill one, two or four waves."""
    most = minimum(MOST_PARTS, floor(depth / LEAST_DEPTH))
    return [
        maximum(1, minimum(floor(waves * device.multiprocessors / tiles), most))
        for waves in (1, 2, 4)
    ]


def waves_of(blocks: Expression, tail_cost: Expression) -> Expression:
    """Waves that blocks take when every multiprocessor holds one at a time.

    A last wave that is part filled costs `tail_cost` of a whole one, and the rest by its
    filling: 1 where blocks wait for each other, 0 where finer tiles even the load out.
    """
    waves = blocks / device.multiprocessors
    rest = waves - floor(waves)
    tail = where(rest > 0, tail_cost + (1 - tail_cost) * rest, 0)
    return maximum(floor(waves) + tail, 1)


def _free(name: str, symbol: str, unit: str, meaning: str) -> Variable:
    return fitted.free(gemm.scope, name, symbol, unit, meaning)


shape = ProductShape(
    rows=_free("rows", "m", "1", "rows of the activations: tokens"),
    columns=_free("columns", "n", "1", "columns of the outputs: features out"),
    depth=_free("depth", "k", "1", "length of the sums: features in"),
    bits=_free("bits", "b", "1", "bits of an operand in the tensor core"),
    weight_element=_free("weight_element", "b_W", "byte", "bytes of a weight"),
    activation_element=_free("activation_element", "b_A", "byte", "bytes of an activation"),
    output_element=_free("output_element", "b_C", "byte", "bytes of an output"),
    weight_footprint=_free(
        "weight_footprint", "f_W", "byte", "bytes touched between two uses of the weights"
    ),
    activation_footprint=_free(
        "activation_footprint", "f_A", "byte", "bytes touched between two uses of the activations"
    ),
    toggling=fitted.free(
        gemm.scope, "toggling", "u", "1", "1 for operands that look random, 0 for constant ones",
        fitted.SHARE,
    ),
    casting=fitted.free(
        gemm.scope, "casting", "c", "1", "1 where narrow activations are cast first, 0 where not",
        fitted.SHARE,
    ),
)  # fmt: skip
standalone = declare(gemm.scope, "", shape, library=True)
"""A product of any shape."""
declare_interval(
    gemm.scope, standalone.time, where(shape.bits > 8, gemm.spread, gemm.eight_bit_spread)
)
