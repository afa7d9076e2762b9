"""Decode attention: one new token per sequence, so the KV cache is read once.

A CTA handles the query heads that share a KV head and iterates over the keys; with fewer such tiles
than SMs the keys are split and the partial results combined (Flash-Decoding). Long contexts are
bound by KV-cache bytes, short ones by the time of a tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, ceil, cited, floor, log2, maximum, minimum, number, where
from assay.stack import works
from assay.stack.fits import approximate
from assay.stack.kernels import device, fitted, roofline
from assay.stack.kernels.attention_prefill import Attention
from assay.stack.kernels.combine import cold_share, declare_interval, sharp_maximum, transfer_time

scope = Scope("kernels.decode", "Decode attention")

MOST_SEQUENCES = 2048
"""The most sequences of a batch in the tables."""
MOST_CONTEXT = 2.0**17
"""The longest context in the tables."""

_FLASH_DECODING = cited("Dao, Haziza, Massa and Sizov 2023, Flash-Decoding for long-context inference")
_COUNT = cited(works.FLASH_ATTENTION_2, "sec. 4.1, FLOPs")
_GQA = cited(works.GQA, "sec. 2.2")

_BLOCK_KEYS = 128
# Keys and values of 128 elements each.
_REFERENCE_WIDTHS = 256


def _constant(heading: str, bounds: fitted.Bounds = (0, None)) -> Variable:
    return fitted.constant(scope, heading, bounds)


launch_time = _constant("launch_time, t_0 [s as us]: time of the kernels without work")
tile_time = _constant("tile_time, tau_q [s as us]: time of a tile besides its keys")
single_time = _constant("single_time, tau_1 [s as us]: time of a tile of one query head besides its keys")
key_time = _constant("key_time, tau_k [s as ns]: time of a key of width 128 in one tile")
rise_share = _constant(
    "rise_share, r_i: bandwidth that the ramp of KV-cache reads rises to, over the data sheet's; above 1 the memory "
    "ends the rise"
)
read_share = scope.declare(
    "read_share, r_r: achieved bandwidth of large KV-cache reads, over the data sheet's",
    bounds=fitted.EFFICIENCY,
    equals=minimum(rise_share, 1),
    reference=cited(works.ROOFLINE, "no kernel reads faster than the memory"),
)
ramp = _constant("ramp, x_0 [byte as MB]: read size at half of the achieved bandwidth")
reach_share = _constant("reach_share, r_h: keys and values that stay in L2, over its capacity")
split_time = _constant("split_time, t_s [s as us]: time to combine KV splits, per doubling of their number")
sequence_time = _constant("sequence_time, tau_B [s as ns]: scheduling time per sequence")
query_share = _constant("query_share, r_q: achieved bandwidth of queries and outputs, over the memory's")
regroup_time = _constant("regroup_time, t_g [s as us]: time of packing query heads into groups")
tile_rows = _constant("tile_rows, b_m: query heads that fit in one tile", (1, None))
most_group = _constant("most_group, g_max: query heads per key head above which each head has its own CTA", (1, None))
splits_single = fitted.flag(scope, "splits_single, z: 1 where ungrouped heads use split KV too, 0 otherwise")
spread = fitted.spread(scope)


@dataclass(frozen=True)
class DecodeShape:
    """Sequences with one new token each.

    `context` counts the tokens in the cache, the new one included; `window` limits what a query
    sees, 0 means no limit; `footprint` is what the GPU touches between two uses of the same keys.
    """

    batch: Expression
    context: Expression
    window: Expression
    heads: Expression
    kv_heads: Expression
    width: Expression
    value_width: Expression
    element: Expression
    kv_element: Expression
    footprint: Expression


def declare(
    into: Scope, prefix: str, shape: DecodeShape, *, what: str = "attention", library: bool = False
) -> Attention:
    """Declare FLOPs, bytes and time of attention of new tokens, under names with a prefix."""
    keys = where(shape.window > 0, minimum(shape.window, shape.context), shape.context)
    widths = shape.width + shape.value_width
    flops = into.declare(
        f"{prefix}flops, F [FLOP as GFLOP]: FLOPs of {what}",
        equals=number("2 FLOP") * shape.batch * shape.heads * widths * keys,
        reference=_COUNT,
        library=library,
    )
    cached = shape.batch * shape.kv_heads * widths * keys * shape.kv_element
    queries = shape.batch * shape.heads * widths * shape.element
    size = into.declare(
        f"{prefix}size, S [byte as MB]: bytes of keys, values, queries and outputs of {what}",
        equals=cached + queries,
        reference=_GQA,
        library=library,
    )
    cold = cached * cold_share(shape.footprint, reach_share * device.cache_capacity)
    rising = transfer_time(cold, rise_share * device.memory_bandwidth, ramp)
    read_time = approximate(
        into,
        f"{prefix}read_time, t_r [s as us]: time of {what} to read keys and values from memory",
        maximum(rising, cold / (read_share * device.memory_bandwidth)),
        valid=shape.batch <= MOST_SEQUENCES,
        reference=fitted.FITTED,
        library=library,
    )
    least = roofline.declare(into, prefix, read=cold, flops=flops, multiple=1, what=what, library=library)
    group = shape.heads / shape.kv_heads
    alone = (group <= 1) | (group > most_group)
    tiles = shape.batch * where(alone, shape.heads, shape.kv_heads * ceil(group / tile_rows))
    filling = minimum(floor(device.multiprocessors / tiles), ceil(keys / _BLOCK_KEYS))
    parts = into.declare(
        f"{prefix}parts, n_s: KV splits of {what}",
        bounds=(1, None),
        equals=where((group > 1) | splits_single, maximum(1, filling), 1),
        reference=_FLASH_DECODING,
        library=library,
    )
    waves = maximum(1, ceil(tiles * parts / device.multiprocessors))
    per_key = key_time * widths / _REFERENCE_WIDTHS
    # A split has whole blocks of keys: the longest of them takes no less than one.
    own_keys = maximum(keys / parts, minimum(keys, _BLOCK_KEYS))
    per_tile = where(alone, single_time, tile_time) + own_keys * per_key
    regrouped = (shape.batch > 1) & (shape.kv_heads > 1) & (group > 1)
    time = approximate(
        into,
        f"{prefix}time, t [s as us]: time of {what}",
        launch_time
        + sequence_time * shape.batch
        + maximum(sharp_maximum(waves * per_tile, rising), read_time, least)
        + split_time * log2(parts)
        + queries / (query_share * device.memory_bandwidth)
        + where(regrouped, regroup_time, number("0 s")),
        valid=(shape.batch <= MOST_SEQUENCES) & (shape.context <= MOST_CONTEXT),
        reference=fitted.FITTED,
        library=library,
    )
    padding = where(alone, tile_rows, ceil(group / tile_rows) * tile_rows / group)
    # Reading the cache bounds this kernel, not the clock.
    return Attention(flops, size, least, time, number("0 s"), flops * padding)


def _free(heading: str, bounds: fitted.Bounds = ("positive", None)) -> Variable:
    return fitted.free(scope, heading, bounds)


shape = DecodeShape(
    batch=_free("batch, B: sequences, one new token each"),
    context=_free("context, s: tokens in the KV cache, including the new one"),
    window=_free("window, w: sliding window of a query; 0 for all tokens", (0, None)),
    heads=_free("heads, h: query heads"),
    kv_heads=_free("kv_heads, h_k: key and value heads"),
    width=_free("width, d: width of a query or key"),
    value_width=_free("value_width, d_v: width of a value"),
    element=_free("element, b_q [byte]: bytes of a query or output element"),
    kv_element=_free("kv_element, b_kv [byte]: bytes of a KV-cache element"),
    footprint=_free("footprint, f [byte]: bytes touched between two uses of the same keys"),
)
standalone = declare(scope, "", shape, what="attention of new tokens", library=True)
"""Attention of any shape."""
declare_interval(scope, standalone.time, spread)
