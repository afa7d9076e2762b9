"""Attention over whole prompts: every token attends to those before it.

Blocks of threads take tiles of queries and pass over the keys that these may see. A tile is rows
of one head or, where the kernel groups them, of all query heads that share a key head. The last
tile of a prompt sees the most keys; how badly it is balanced against the others belongs to the
kernel. Keys and values are written to the cache by a pass of its own.
"""

from __future__ import annotations

from assay.model import (
    POSITIVE,
    Scope,
    Variable,
    by_definition,
    ceil,
    cited,
    minimum,
    number,
    where,
)
from assay.stack.kernels import device
from assay.stack.kernels.combine import declare_interval, exposed, sharp_maximum

scope = Scope("kernels.prefill", "Attention over prompts")

_FLASH2 = (
    "Dao 2023, FlashAttention-2: faster attention with better parallelism and work partitioning"
)
_TILING = cited(_FLASH2, "sec. 3")
_COUNT = cited(_FLASH2, "sec. 4.1, FLOPs with the causal half")
_FLASH3 = cited(
    "Shah et al. 2024, FlashAttention-3: fast and accurate attention with asynchrony and low-precision"
)
_GRAHAM = cited("Graham 1969, Bounds on multiprocessing timing anomalies")
_GQA = cited(
    "Ainslie et al. 2023, GQA: training generalized multi-query transformer models from "
    "multi-head checkpoints"
)
_PAGED = cited(
    "Kwon et al. 2023, Efficient memory management for large language model serving with "
    "PagedAttention"
)
_ROOFLINE = cited(
    "Williams, Waterman and Patterson 2009, Roofline: an insightful visual performance model "
    "for multicore architectures"
)
_FITTED = by_definition("fitted on measured kernels, docs/design/kernel-model.md")
_SHAPE = by_definition("shape of the operation")


def _shape(name: str, symbol: str, unit: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, bounds=POSITIVE, reference=_SHAPE, boundary="scenario"
    )


def _fitted(name: str, symbol: str, unit: str, display: str, meaning: str) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, display=display, reference=_FITTED, boundary="needs-source"
    )


batch = _shape("batch", "B", "1", "prompts")
length = _shape("length", "s", "1", "tokens of a prompt")
window = _shape(
    "window", "w", "1", "tokens a query sees at most; the length where there is no limit"
)
heads = _shape("heads", "h", "1", "query heads")
kv_heads = _shape("kv_heads", "h_k", "1", "key and value heads")
width = _shape("width", "d", "1", "width of a head")
element = _shape("element", "b_q", "byte", "bytes of a query, key or value element")
kv_element = _shape("kv_element", "b_kv", "byte", "bytes of an element in the cache")

launch_time = _fitted("launch_time", "t_0", "s", "us", "time of the kernels with nothing to do")
token_time = _fitted("token_time", "tau_t", "s", "ns", "time per token of the pass over the cache")
tile_time = _fitted("tile_time", "tau_q", "s", "us", "time of a tile besides its keys")
tile_rate = _fitted("tile_rate", "R_t", "FLOP/s", "TFLOP/s", "rate of a multiprocessor on a tile")
score_time = _fitted("score_time", "tau_s", "s", "ps", "time of one score's softmax")
stream_bandwidth = _fitted(
    "stream_bandwidth", "B_q", "byte/s", "TB/s", "rate of queries and outputs"
)
cache_bandwidth = _fitted("cache_bandwidth", "B_c", "byte/s", "TB/s", "rate of writing the cache")
sustained_rate = _fitted(
    "sustained_rate", "R_P", "FLOP/s", "TFLOP/s", "rate of a multiprocessor under the power limit"
)
imbalance = _fitted(
    "imbalance", "kappa", "1", "1", "share of the longest tile that others wait for"
)
spread = _fitted("spread", "sigma", "1", "1", "logarithmic spread of measured over predicted")
tile_rows = _fitted("tile_rows", "b_m", "1", "1", "rows of a tile of queries")
grouped = scope.variable(
    "grouped", "g", "1", "1 where a tile holds all heads of a key head, 0 where it holds one",
    bounds=(0, 1), reference=_GQA, boundary="needs-source",
)  # fmt: skip

CONSTANTS = (
    launch_time, token_time, tile_time, tile_rate, score_time, stream_bandwidth, cache_bandwidth,
    sustained_rate, imbalance,
)  # fmt: skip
"""What is fitted per accelerator and kernel; `tile_rows` and `grouped` are facts of the kernel."""

reach = scope.variable(
    "reach", "r", "1", "tokens that the last query sees", equals=minimum(window, length),
    reference=_SHAPE,
)  # fmt: skip
pairs = scope.variable(
    "pairs", "n_p", "1", "pairs of query and key of one head and prompt",
    equals=reach * (reach + 1) / 2 + (length - reach) * reach, reference=_COUNT,
)  # fmt: skip
flops = scope.variable(
    "flops", "F", "FLOP", "floating-point operations of both products", display="GFLOP",
    equals=number("4 FLOP") * batch * heads * width * pairs, reference=_COUNT,
)  # fmt: skip
stream_size = scope.variable(
    "stream_size", "S_q", "byte", "bytes of queries, keys, values and outputs", display="MB",
    equals=2 * batch * length * width * (heads * element + kv_heads * kv_element),
    reference=_TILING,
)  # fmt: skip
cache_size = scope.variable(
    "cache_size", "S_c", "byte", "bytes read and written to fill the cache", display="MB",
    equals=2 * batch * length * width * kv_heads * (element + kv_element), reference=_PAGED,
)  # fmt: skip
heads_per_tile = scope.variable(
    "heads_per_tile", "g_t", "1", "query heads whose rows share a tile",
    equals=where(grouped > 0.5, heads / kv_heads, 1), reference=_GQA,
)  # fmt: skip
row_tiles = scope.variable(
    "row_tiles", "n_r", "1", "tiles of one prompt and group of heads",
    equals=ceil(heads_per_tile * length / tile_rows), reference=_TILING,
)  # fmt: skip
tiles = scope.variable(
    "tiles", "n_t", "1", "tiles of queries", equals=batch * (heads / heads_per_tile) * row_tiles,
    reference=_TILING,
)  # fmt: skip
span = scope.variable(
    "span", "n_s", "1", "tokens that a tile spans",
    equals=minimum(tile_rows / heads_per_tile, length), reference=_TILING,
)  # fmt: skip
last_keys = scope.variable(
    "last_keys", "k_l", "1", "keys that the last tile passes over",
    equals=minimum(length, reach + span), reference=_TILING,
)  # fmt: skip
mean_keys = scope.variable(
    "mean_keys", "k_m", "1", "keys that a tile passes over on average: half its span is masked",
    equals=minimum(pairs / length + span / 2, last_keys), reference=_TILING,
)  # fmt: skip
key_time = scope.variable(
    "key_time", "tau_k", "s", "time of one row of a tile and one key", display="ps",
    equals=number("4 FLOP") * width / tile_rate + score_time, reference=_FLASH3,
)  # fmt: skip
mean_load = scope.variable(
    "mean_load", "t_m", "s", "time of all tiles spread evenly", display="us",
    equals=tiles * (tile_rows * mean_keys * key_time + tile_time) / device.multiprocessors,
    reference=_GRAHAM,
)  # fmt: skip
longest_tile = scope.variable(
    "longest_tile", "t_l", "s", "time of the tile that passes over the most keys", display="us",
    equals=tile_rows * last_keys * key_time + tile_time, reference=_GRAHAM,
)  # fmt: skip
power_time = scope.variable(
    "power_time", "t_P", "s", "time of all operations under the power limit", display="us",
    equals=flops / (sustained_rate * device.multiprocessors), reference=_ROOFLINE,
)  # fmt: skip
compute_time = scope.variable(
    "compute_time", "t_c", "s", "time of the tiles", display="us",
    equals=sharp_maximum(exposed(mean_load, longest_tile, imbalance), power_time),
    reference=_GRAHAM,
)  # fmt: skip
memory_time = scope.variable(
    "memory_time", "t_b", "s", "time of the bytes, which tiles and cache pass do not hide",
    display="us", equals=stream_size / stream_bandwidth + cache_size / cache_bandwidth,
    reference=_ROOFLINE,
)  # fmt: skip
time = scope.variable(
    "time", "t", "s", "time of attention over prompts", display="us",
    equals=launch_time + token_time * batch * length + compute_time + memory_time,
)  # fmt: skip
time_low, time_high = declare_interval(scope, "", time, spread)
