"""Attention of one new token per sequence: the cache is read once, by few rows.

A block takes the query heads that share a key head and passes over the keys; where there are
fewer such tiles than multiprocessors, the keys are split and the parts joined. Long contexts are
bound by the bytes of the cache, short ones by the time of a tile.
"""

from __future__ import annotations

from assay.model import (
    POSITIVE,
    Scope,
    Variable,
    by_definition,
    ceil,
    cited,
    floor,
    log2,
    maximum,
    minimum,
    number,
    where,
)
from assay.stack.kernels import device
from assay.stack.kernels.combine import cold_share, declare_interval, sharp_maximum, transfer_time

scope = Scope("kernels.decode", "Attention of new tokens")

_FLASH_DECODING = cited(
    "Dao, Haziza, Massa and Sizov 2023, Flash-Decoding for long-context inference"
)
_FLASH2 = cited(
    "Dao 2023, FlashAttention-2: faster attention with better parallelism and work partitioning"
)
_GQA = cited(
    "Ainslie et al. 2023, GQA: training generalized multi-query transformer models from "
    "multi-head checkpoints"
)
_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures"
)
_FITTED = by_definition("fitted on measured kernels, docs/design/kernel-model.md")
_SHAPE = by_definition("shape of the operation")

_BLOCK_KEYS = 128
_REFERENCE_WIDTH = 128


def _shape(name: str, symbol: str, unit: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, bounds=POSITIVE, reference=_SHAPE, boundary="scenario"
    )


def _fitted(name: str, symbol: str, unit: str, display: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, display=display, reference=_FITTED, boundary="needs-source"
    )


batch = _shape("batch", "B", "1", "sequences, one new token each")
context = _shape("context", "s", "1", "tokens in the cache, the new one included")
window = _shape(
    "window", "w", "1", "tokens a query sees at most; the context where there is no limit"
)
heads = _shape("heads", "h", "1", "query heads")
kv_heads = _shape("kv_heads", "h_k", "1", "key and value heads")
width = _shape("width", "d", "1", "width of a head")
element = _shape("element", "b_q", "byte", "bytes of a query or output element")
kv_element = _shape("kv_element", "b_kv", "byte", "bytes of an element in the cache")
footprint = _shape("footprint", "f", "byte", "bytes touched between two uses of the same keys")

launch_time = _fitted("launch_time", "t_0", "s", "us", "time of the kernels with nothing to do")
tile_time = _fitted("tile_time", "tau_q", "s", "us", "time of a tile besides its keys")
key_time = _fitted("key_time", "tau_k", "s", "ns", "time of a key of width 128 in one tile")
read_bandwidth = _fitted("read_bandwidth", "B_r", "byte/s", "TB/s", "rate of reading the cache")
ramp = _fitted("ramp", "x_0", "byte", "MB", "size at which reading reaches half its rate")
cache_reach = _fitted(
    "cache_reach", "C_h", "byte", "MB", "keys and values that stay in the GPU's cache"
)
split_time = _fitted("split_time", "t_s", "s", "us", "time of joining parts, per doubling")
sequence_time = _fitted("sequence_time", "tau_B", "s", "ns", "time per sequence of preparing it")
query_bandwidth = _fitted("query_bandwidth", "B_q", "byte/s", "TB/s", "rate of queries and outputs")
regroup_time = _fitted("regroup_time", "t_g", "s", "us", "time of copying queries into groups")
spread = _fitted("spread", "sigma", "1", "1", "logarithmic spread of measured over predicted")
tile_rows = _fitted("tile_rows", "b_m", "1", "1", "query heads that one tile can hold")
splits_single = scope.variable(
    "splits_single", "z", "1", "1 where keys of ungrouped heads are split too, 0 where they are not",
    bounds=(0, 1), reference=_FLASH_DECODING, boundary="needs-source",
)  # fmt: skip

CONSTANTS = (
    launch_time, tile_time, key_time, read_bandwidth, ramp, cache_reach, split_time,
    sequence_time, query_bandwidth, regroup_time,
)  # fmt: skip
"""What is fitted per accelerator and kernel; `tile_rows` and `splits_single` are facts of it."""

keys = scope.variable(
    "keys", "k", "1", "keys that a query sees", equals=minimum(context, window), reference=_SHAPE
)
group = scope.variable(
    "group", "g", "1", "query heads per key head", equals=heads / kv_heads, reference=_GQA
)
flops = scope.variable(
    "flops", "F", "FLOP", "floating-point operations of both products", display="GFLOP",
    equals=number("4 FLOP") * batch * heads * width * keys, reference=_FLASH2,
)  # fmt: skip
kv_size = scope.variable(
    "kv_size", "S_kv", "byte", "bytes of the keys and values seen", display="MB",
    equals=2 * batch * kv_heads * width * keys * kv_element, reference=_GQA,
)  # fmt: skip
query_size = scope.variable(
    "query_size", "S_q", "byte", "bytes of queries and outputs", display="MB",
    equals=2 * batch * heads * width * element, reference=_FLASH2,
)  # fmt: skip
read_size = scope.variable(
    "read_size", "S_r", "byte", "keys and values that come from memory, not from the GPU's cache",
    display="MB", equals=kv_size * cold_share(footprint, cache_reach),
)  # fmt: skip
read_time = scope.variable(
    "read_time", "t_r", "s", "time to read keys and values from memory", display="us",
    equals=transfer_time(read_size, read_bandwidth, ramp), reference=_ROOFLINE,
)  # fmt: skip
tiles = scope.variable(
    "tiles", "n_t", "1", "tiles before keys are split",
    equals=batch * kv_heads * ceil(group / tile_rows), reference=_FLASH_DECODING,
)  # fmt: skip
parts = scope.variable(
    "parts", "n_s", "1", "parts that the keys are split into", bounds=(1, None),
    equals=where(
        (group > 1) | (splits_single > 0.5),
        maximum(1, minimum(floor(device.multiprocessors / tiles), ceil(keys / _BLOCK_KEYS))),
        1,
    ),
    reference=_FLASH_DECODING,
)  # fmt: skip
waves = scope.variable(
    "waves", "n_w", "1", "waves of tiles on all multiprocessors",
    equals=maximum(1, ceil(tiles * parts / device.multiprocessors)), reference=_FLASH_DECODING,
)  # fmt: skip
tile_load = scope.variable(
    "tile_load", "t_t", "s", "time of all tiles, wave after wave", display="us",
    equals=waves * (tile_time + keys / parts * key_time * width / _REFERENCE_WIDTH),
    reference=_FLASH_DECODING,
)  # fmt: skip
regrouping = scope.variable(
    "regrouping", "t_c", "s", "time of copying queries where groups do not lie together",
    display="us",
    equals=where((batch > 1) & (kv_heads > 1) & (group > 1), regroup_time, number("0 s")),
)  # fmt: skip
time = scope.variable(
    "time", "t", "s", "time of attention of new tokens", display="us",
    equals=launch_time
    + sequence_time * batch
    + sharp_maximum(tile_load, read_time)
    + split_time * log2(parts)
    + query_size / query_bandwidth
    + regrouping,
)  # fmt: skip
time_low, time_high = declare_interval(scope, "", time, spread)
