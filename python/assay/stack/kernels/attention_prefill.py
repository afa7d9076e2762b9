"""Prefill attention: causal attention over prompts.

CTAs iterate over the keys that a tile of queries may attend to. A tile has rows of one head or,
where the kernel packs them, of all query heads that share a KV head. The last tile of a prompt
attends to the most keys; the load imbalance that follows is a property of the kernel. A separate
pass writes keys and values to the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import Expression, Scope, Variable, ceil, cited, maximum, minimum, number, where
from assay.stack import works
from assay.stack.fits import approximate
from assay.stack.kernels import device, fitted, roofline
from assay.stack.kernels.combine import SHARP, cold_share, declare_interval, exposed, sharp_maximum

scope = Scope("kernels.prefill", "Prefill attention")

MOST_QUERIES = 2.0**14
"""The most queries of a sequence in the tables."""

_TILING = cited(works.FLASH_ATTENTION_2, "sec. 3")
_COUNT = cited(works.FLASH_ATTENTION_2, "sec. 4.1, FLOPs with the causal half")
_GRAHAM = cited("Graham 1969, Bounds on multiprocessing timing anomalies")
_ROOFLINE = cited(works.ROOFLINE, "The Roofline Model")

_YES = number("1 1")
_SIXTEEN = number("16 1")


def _constant(heading: str, bounds: fitted.Bounds = (0, None)) -> Variable:
    return fitted.constant(scope, heading, bounds)


launch_time = _constant("launch_time, t_0 [s as us]: time of the kernels without work")
token_time = _constant("token_time, tau_t [s as ns]: time per token of the pass over the cache")
tile_time = _constant("tile_time, tau_q [s as us]: time of a tile besides its keys")
tile_share = _constant("tile_share, r_t: rate on a tile without softmax, over the peak")
score_time = _constant("score_time, tau_s [s as ps]: softmax time per attention logit")
stream_share = _constant("stream_share, r_q: achieved bandwidth of queries and outputs, over the memory's")
cache_share = _constant("cache_share, r_c: achieved bandwidth of KV-cache writes, over the memory's")
sustained_share = _constant("sustained_share, r_P: sustained rate under the power limit, over the peak")
imbalance = _constant("imbalance, kappa: exposed share of the longest tile")
tile_rows = _constant("tile_rows, b_m: rows of a tile of queries", (1, None))
grouped = fitted.flag(scope, "grouped, g: 1 where a tile packs all query heads of a KV head, 0 otherwise")
spread = fitted.spread(scope)


@dataclass(frozen=True)
class PrefillShape:
    """Shape of a prefill attention.

    `length` counts new tokens of a prompt and `keys` those they may see, own ones included: equal
    for a whole prompt, more for a later chunk. `window` limits what a query sees; 0 means no
    limit. `caching` is 1 where keys and values are also written to a cache, 0 in training.
    `bits` is the width of the operands inside the tensor core.
    """

    batch: Expression
    length: Expression
    keys: Expression
    window: Expression
    heads: Expression
    kv_heads: Expression
    width: Expression
    value_width: Expression
    element: Expression
    kv_element: Expression
    caching: Expression = _YES
    bits: Expression = _SIXTEEN


@dataclass(frozen=True)
class Attention:
    """The variables of one declared attention.

    `padded` counts the FLOPs of all rows of a tensor-core tile, those without a query head too.
    """

    flops: Variable
    size: Variable
    floor: Variable
    time: Variable
    clock_bound: Expression
    padded: Expression


def declare(
    into: Scope, prefix: str, shape: PrefillShape, *, what: str = "attention", library: bool = False
) -> Attention:
    """Declare FLOPs, bytes and time of attention over prompts, under names with a prefix."""
    reach = where(shape.window > 0, minimum(shape.window, shape.keys), shape.keys)
    before = shape.keys - shape.length
    widths = shape.width + shape.value_width
    # The first queries attend to all tokens so far; later ones only to the window.
    growing = maximum(0, minimum(shape.length, reach - before))
    pairs = into.declare(
        f"{prefix}pairs, n_p: query-key pairs per head and prompt in {what}",
        equals=growing * before + growing * (growing + 1) / 2 + (shape.length - growing) * reach,
        reference=_COUNT,
        library=library,
    )
    flops = into.declare(
        f"{prefix}flops, F [FLOP as GFLOP]: FLOPs of {what}",
        equals=number("2 FLOP") * shape.batch * shape.heads * widths * pairs,
        reference=_COUNT,
        library=library,
    )
    rows = shape.batch * shape.length * widths
    seen = shape.batch * minimum(shape.keys, reach + shape.length) * widths
    streams = rows * shape.heads * shape.element + seen * shape.kv_heads * shape.kv_element
    filling = shape.caching * rows * shape.kv_heads * (shape.element + shape.kv_element)
    size = into.declare(
        f"{prefix}size, S [byte as MB]: bytes of queries, keys, values and outputs of {what}",
        equals=streams + filling,
        reference=_TILING,
        library=library,
    )
    memory_time = into.declare(
        f"{prefix}memory_time, t_b [s as us]: exposed memory time of {what}",
        equals=(streams / stream_share + filling / cache_share) / device.memory_bandwidth,
        reference=_ROOFLINE,
        library=library,
    )
    least = roofline.declare(
        into,
        prefix,
        read=size * cold_share(size, device.cache_capacity),
        flops=flops,
        multiple=device.rate_multiple(shape.bits),
        what=what,
        library=library,
    )
    compute_time = _declare_tiles(into, prefix, shape, reach, pairs, flops, what, library)
    tokens = shape.batch * shape.length * shape.caching
    time = approximate(
        into,
        f"{prefix}time, t [s as us]: time of {what}",
        launch_time + token_time * tokens + maximum(compute_time + memory_time, least),
        valid=shape.length <= MOST_QUERIES,
        reference=fitted.FITTED,
        library=library,
    )
    rate = sustained_share * device.rate_multiple(shape.bits) * device.peak_flops
    clock_bound = device.clock_bound(flops / rate, compute_time, number(str(SHARP)))
    return Attention(flops, size, least, time, clock_bound, flops)


def _declare_tiles(
    into: Scope,
    prefix: str,
    shape: PrefillShape,
    reach: Expression,
    pairs: Variable,
    flops: Variable,
    what: str,
    library: bool,
) -> Variable:
    per_tile = where(grouped, shape.heads / shape.kv_heads, 1)
    tiles = shape.batch * (shape.heads / per_tile) * ceil(per_tile * shape.length / tile_rows)
    span = minimum(tile_rows / per_tile, shape.length)
    last_keys = minimum(shape.keys, reach + span)
    # The causal mask removes half of a diagonal tile.
    mean_keys = minimum(pairs / shape.length + span / 2, last_keys)
    multiple = device.rate_multiple(shape.bits)
    rate = tile_share * multiple * device.tile_peak
    key_time = number("2 FLOP") * (shape.width + shape.value_width) / rate + score_time
    mean_load = tiles * (tile_rows * mean_keys * key_time + tile_time) / device.multiprocessors
    longest = tile_rows * last_keys * key_time + tile_time
    sustained = sustained_share * multiple * device.peak_flops * device.clock_of(library)
    return into.declare(
        f"{prefix}compute_time, t_c [s as us]: time of the tiles of {what}",
        equals=sharp_maximum(exposed(mean_load, longest, imbalance), flops / sustained),
        reference=_GRAHAM,
        library=library,
    )


def _free(heading: str, bounds: fitted.Bounds) -> Variable:
    return fitted.free(scope, heading, bounds)


_SIZE: fitted.Bounds = ("positive", None)
_ANY: fitted.Bounds = (0, None)

shape = PrefillShape(
    batch=_free("batch, B: prompts", _SIZE),
    length=_free("length, s: new tokens of a prompt", _SIZE),
    keys=_free("keys, k: context length of the last query", _SIZE),
    window=_free("window, w: sliding window of a query; 0 for all tokens", _ANY),
    heads=_free("heads, h: query heads", _SIZE),
    kv_heads=_free("kv_heads, h_k: key and value heads", _SIZE),
    width=_free("width, d: width of a query or key", _SIZE),
    value_width=_free("value_width, d_v: width of a value", _SIZE),
    element=_free("element, b_q [byte]: bytes of a query or output element", _SIZE),
    kv_element=_free("kv_element, b_kv [byte]: bytes of a key or value element", _SIZE),
    caching=_free("caching, c: 1 where keys and values are written to the cache, 0 otherwise", fitted.SHARE),
    bits=_free("bits, b: bits of an operand in the tensor core", _SIZE),
)
standalone = declare(scope, "", shape, what="attention over prompts", library=True)
"""Attention of any shape."""
declare_interval(scope, standalone.time, spread)
