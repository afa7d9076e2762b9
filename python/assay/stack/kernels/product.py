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
from assay.stack.kernels import device
from assay.stack.kernels.combine import (
    cold_share,
    declare_interval,
    exposed,
    overlap,
    sharp_maximum,
    transfer_time,
)

TILES = ((16, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 128))
"""Output tiles, rows by columns; more shapes did not predict better."""

SPLITS = (1, 2, 3, 4, 6, 8, 16, 32)
"""Into how many parts the depth of a tile may be cut."""

LEAST_DEPTH = 128
"""Depth below which a part is not worth a block."""

_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures"
)
_GUIDE = "NVIDIA Matrix Multiplication Background User's Guide, DU-09799-001 2023"
_BOUNDS = cited(_GUIDE, "ch. 2 Math And Memory Bounds")
_TILES = cited(_GUIDE, "sec. 3.1 Tile Quantization")
_STREAM_K = cited(
    "Osama et al. 2023, Stream-K: work-centric parallel decomposition for dense matrix-matrix "
    "multiplication on the GPU",
    "sec. 2 on fixed splitting",
)
_POWER = by_definition("operations over the rate that the power limit leaves")

# Constant operands toggle fewer wires: such products ran 5 % faster at the power limit.
_RELIEF = 0.05
# The clock sinks over milliseconds: the power controller averages.
_HORIZON = number("4 ms")
# Parts are kept in 32 bits, written once and read once.
_PART = number("8 byte")


@dataclass(frozen=True)
class ProductConstants:
    """What the hardware and the library contribute; fitted per accelerator."""

    launch_time: Variable
    tile_rate: Variable
    sustained_rate: Variable
    step_time: Variable
    ingest_bandwidth: Variable
    read_bandwidth: Variable
    cache_bandwidth: Variable
    overlap_exponent: Variable
    block_time: Variable
    split_time: Variable
    write_bandwidth: Variable
    write_exposure: Variable
    tail_cost: Variable
    throttle_depth: Variable
    ramp: Variable
    spread: Variable


@dataclass(frozen=True)
class ProductShape:
    """What is multiplied.

    A footprint is what the GPU touches between two uses of the weights, or of the activations:
    it decides whether they are still in the cache. `toggling` is 1 for operands that look
    random, as real ones do, and 0 for constant ones, which draw less power.
    """

    rows: Expression
    columns: Expression
    depth: Expression
    weight_element: Expression
    activation_element: Expression
    output_element: Expression
    weight_footprint: Expression
    activation_footprint: Expression
    toggling: Expression


@dataclass(frozen=True)
class Product:
    """The variables of one declared product."""

    flops: Variable
    size: Variable
    time: Variable
    time_low: Variable
    time_high: Variable


def declare_product(
    scope: Scope, prefix: str, shape: ProductShape, constants: ProductConstants
) -> Product:
    """Declare FLOPs, bytes and time of a product in a scope, under names with a prefix."""
    flops, size, output_size, read_time = _declare_work(scope, prefix, shape, constants)
    write_time = scope.variable(
        f"{prefix}write_time", "t_w", "s", "time to write the outputs", display="us",
        equals=transfer_time(output_size, constants.write_bandwidth, constants.ramp),
        reference=_ROOFLINE,
    )  # fmt: skip
    rate = constants.sustained_rate * device.multiprocessors
    power_time = scope.variable(
        f"{prefix}power_time", "t_P", "s", "time of all operations under the power limit",
        display="us", equals=flops / (rate * (1 + _RELIEF * (1 - shape.toggling))),
        reference=_POWER,
    )  # fmt: skip
    limits = Limits(shape, constants, power_time, read_time, write_time)
    tiled = [_declare_tile(scope, prefix, limits, *tile) for tile in TILES]
    best = scope.variable(
        f"{prefix}tiled_time", "t_best", "s", "time in the tiles that end first", display="us",
        equals=minimum(*tiled), reference=_TILES,
    )  # fmt: skip
    sunk = shape.toggling * constants.throttle_depth * best / (best + _HORIZON)
    time = scope.variable(
        f"{prefix}time", "t", "s", "time of a product", display="us",
        equals=constants.launch_time + best * (1 + sunk),
    )  # fmt: skip
    return Product(flops, size, time, *declare_interval(scope, prefix, time, constants.spread))


def _declare_work(
    scope: Scope, prefix: str, shape: ProductShape, constants: ProductConstants
) -> tuple[Variable, Variable, Variable, Variable]:
    flops = scope.variable(
        f"{prefix}flops", "F", "FLOP", "floating-point operations of a product", display="GFLOP",
        equals=number("2 FLOP") * shape.rows * shape.columns * shape.depth, reference=_BOUNDS,
    )  # fmt: skip
    weight_size = scope.variable(
        f"{prefix}weight_size", "S_W", "byte", "bytes of the weights", display="MB",
        equals=shape.columns * shape.depth * shape.weight_element, reference=_BOUNDS,
    )  # fmt: skip
    activation_size = scope.variable(
        f"{prefix}activation_size", "S_A", "byte", "bytes of the activations", display="MB",
        equals=shape.rows * shape.depth * shape.activation_element, reference=_BOUNDS,
    )  # fmt: skip
    output_size = scope.variable(
        f"{prefix}output_size", "S_C", "byte", "bytes of the outputs", display="MB",
        equals=shape.rows * shape.columns * shape.output_element, reference=_BOUNDS,
    )  # fmt: skip
    size = scope.variable(
        f"{prefix}size", "S", "byte", "least bytes that a product moves", display="MB",
        equals=weight_size + activation_size + output_size, reference=_BOUNDS,
    )  # fmt: skip
    # Each half of the chip keeps its own copy of what its multiprocessors read.
    capacity = device.cache_capacity / 2
    cold_weights = weight_size * cold_share(shape.weight_footprint, capacity)
    cold_activations = activation_size * cold_share(shape.activation_footprint, capacity)
    read_size = scope.variable(
        f"{prefix}read_size", "S_r", "byte", "operand bytes that come from memory, not the cache",
        display="MB", equals=cold_weights + cold_activations,
    )  # fmt: skip
    read_time = scope.variable(
        f"{prefix}read_time", "t_r", "s", "time to read operands from memory", display="us",
        equals=transfer_time(read_size, constants.read_bandwidth, constants.ramp),
        reference=_ROOFLINE,
    )  # fmt: skip
    return flops, size, output_size, read_time


@dataclass(frozen=True)
class Limits:
    """What bounds a product whatever its tiles."""

    shape: ProductShape
    constants: ProductConstants
    power_time: Variable
    read_time: Variable
    write_time: Variable


def _declare_tile(scope: Scope, prefix: str, limits: Limits, rows: int, columns: int) -> Variable:
    shape, constants = limits.shape, limits.constants
    tiles = scope.variable(
        f"{prefix}tile_{rows}x{columns}.tiles", "n_t", "1", f"output tiles of {rows} by {columns}",
        equals=ceil(shape.rows / rows) * ceil(shape.columns / columns), reference=_TILES,
    )  # fmt: skip
    operands = rows * shape.activation_element + columns * shape.weight_element
    computing = number(f"{2 * rows * columns} FLOP") / constants.tile_rate
    per_depth = maximum(computing + operands / constants.ingest_bandwidth, constants.step_time)
    cache_time = tiles * shape.depth * operands / constants.cache_bandwidth

    def in_parts(parts: int) -> Expression:
        blocks = tiles * parts
        busy = waves_of(blocks, constants.tail_cost) * (shape.depth / parts) * per_depth
        inner = sharp_maximum(busy, cache_time, limits.power_time)
        time = overlap(inner, limits.read_time, constants.overlap_exponent)
        time = time + constants.block_time * blocks
        if parts > 1:
            joined = parts * shape.rows * shape.columns * _PART / constants.write_bandwidth
            time = time + constants.split_time + joined
        return exposed(time, limits.write_time, constants.write_exposure)

    whole = in_parts(1)
    split = [where(shape.depth >= LEAST_DEPTH * n, in_parts(n), whole) for n in SPLITS[1:]]
    return scope.variable(
        f"{prefix}tile_{rows}x{columns}.time", "t_t", "s", f"time in tiles of {rows} by {columns}",
        display="us", equals=minimum(whole, *split), reference=_STREAM_K,
    )  # fmt: skip


def waves_of(blocks: Expression, tail_cost: Expression) -> Expression:
    """Waves that blocks take when every multiprocessor holds one at a time.

    A last wave that is part filled costs `tail_cost` of a whole one, and the rest by its
    filling: 1 where blocks wait for each other, 0 where finer tiles even the load out.
    """
    waves = blocks / device.multiprocessors
    rest = waves - floor(waves)
    tail = where(rest > 0, tail_cost + (1 - tail_cost) * rest, 0)
    return maximum(floor(waves) + tail, 1)
