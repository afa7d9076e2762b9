"""Caches and translation: what is found where, and how long a load takes on average.

A cache is sets of a few lines; which set a line goes to is as good as random, so that a cache forgets some lines
before it is full and keeps others long after. Under independent requests every line stays for the same
characteristic time since its last use (Che's approximation), from which the hits of popular and of streamed lines
follow. Behind the caches a table of pages translates addresses, with a cache of its own.
"""

from __future__ import annotations

from assay.model import POSITIVE, Variable, by_definition, cited, exp, log2, maximum, minimum, number, where
from assay.stack import works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.kernels import attention_decode, gemm_constants, passes
from assay.stack.multiprocessor.latency import line, memory_cycles
from assay.stack.multiprocessor.residency import scope, shared_rate

_SETS = cited(works.COMPUTER_ARCHITECTURE, "appendix B, memory hierarchy: block placement and identification")
_MEAN = cited(works.COMPUTER_ARCHITECTURE, "appendix B, average memory access time of two levels")
_PAGES = cited(works.COMPUTER_ARCHITECTURE, "appendix B, virtual memory: translation lookaside buffer")
_CHE = cited(
    "Che, Tung and Wang 2002, Hierarchical Web Caching Systems: Modeling, Design and Experimental Results, IEEE "
    "Journal on Selected Areas in Communications 20(7)",
    "characteristic time of an LRU cache",
)
_RANDOM_SETS = cited(
    "Hill and Smith 1989, Evaluating Associativity in CPU Caches, IEEE Transactions on Computers 38(12)",
    "hit ratio of a set-associative cache from stack distances",
)
_PARTITIONS = cited(
    "NVIDIA A100 Tensor Core GPU Architecture, whitepaper 2020", "L2 cache in two partitions, each for its GPCs"
)
_LATENCIES = cited(
    "Luo et al. 2024, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking, "
    "arXiv:2402.13499",
    "Table on latencies of the memory hierarchy",
)
_GPU = number("1 GPU")


def _cycles(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_LATENCIES, boundary="primitive")


# Sets.
first_capacity = scope.declare(
    "first.capacity, C_1 [byte as KiB]: first-level cache of a multiprocessor", bounds=POSITIVE, reference=_SETS,
    boundary="primitive",
)  # fmt: skip
first_ways = scope.declare(
    "first.ways, a_1: lines of a set of the first-level cache; unless given, 4", equals=4, bounds=POSITIVE,
    reference=_SETS,
)  # fmt: skip
first_sets = scope.declare(
    "first.sets, n_1: sets of the first-level cache",
    equals=first_capacity / (line * first_ways),
    bounds=POSITIVE,
    reference=_SETS,
    target=True,
)
ways = scope.declare(
    "second.ways, a_2: lines of a set of the second-level cache; unless given, 16", equals=16, bounds=POSITIVE,
    reference=_SETS,
)  # fmt: skip
lines = scope.declare(
    "second.lines, N_2: lines of the second-level cache",
    equals=gpu_rates.cache_capacity * _GPU / line,
    bounds=POSITIVE,
    reference=_SETS,
)
sets = scope.declare(
    "second.sets, n_2: sets of the second-level cache", equals=lines / ways, bounds=POSITIVE, reference=_SETS,
    target=True,
)  # fmt: skip
address_bits = scope.declare(
    "address.bits, b_a: bits of a physical address; unless given, 47", equals=47, bounds=POSITIVE, reference=_SETS
)
tag_bits = scope.declare(
    "second.tag_bits, b_t: bits of a line's tag: of the address, less those of set and byte",
    equals=address_bits - log2(sets) - log2(line / number("1 byte")),
    reference=_SETS,
)
tag_share = scope.declare(
    "second.tag_share, s_t [1 as %]: bits of tags over bits of data of the second-level cache",
    equals=tag_bits / (line * number("8 1/byte")),
    reference=_SETS,
    target=True,
)
copies = scope.declare(
    "second.copies, k_2: copies of a line in the partitions of the second-level cache; unless given, 1",
    equals=1,
    bounds=(1, None),
    reference=_PARTITIONS,
)
# A line outlives the lines that came to its set since: their number is Poisson, and the distance at which a line is
# as likely gone as not is the median of a gamma distribution of as many degrees as the set has lines.
reach = scope.declare(
    "second.reach, r_2 [1 as %]: bytes touched since a line's last use, over the capacity, at which half of such lines "
    "are gone",
    equals=(ways - 1 / 3) / ways / copies,
    bounds=(0, 1),
    reference=_RANDOM_SETS,
    target=True,
)
_REACH = "lines outlive what came to their set since their last use"
for constant, name in ((gemm_constants, "gemms"), (passes, "passes"), (attention_decode, "decode")):
    scope.approximation(
        constant.reach_share, reach, name=f"reach_of_{name}", valid=ways >= 1, meaning=_REACH, reference=_RANDOM_SETS
    )
# Hits of popular and of streamed lines.
hot_bytes = scope.declare(
    "hot.bytes, S_h [byte as MiB]: bytes that are asked for again and again: weights of a tile's columns, tables",
    bounds=POSITIVE,
    reference=_CHE,
    boundary="scenario",
)
hot_share = scope.declare(
    "hot.requests, p_h [1 as %]: share of requests that ask for them", bounds=("positive", 1), reference=_CHE,
    boundary="scenario",
)  # fmt: skip
stream_bytes = scope.declare(
    "stream.bytes, S_s [byte as MiB]: all other bytes", bounds=POSITIVE, reference=_CHE, boundary="scenario"
)
hot_lines = scope.declare(
    "hot.lines, n_h: lines of the bytes asked for again", equals=hot_bytes / line, bounds=POSITIVE, reference=_CHE
)
stream_lines = scope.declare(
    "stream.lines, n_s: lines of all other bytes", equals=stream_bytes / line, bounds=POSITIVE, reference=_CHE
)
characteristic = scope.declare(
    "second.characteristic, T_C: requests after which a line that was not asked for again is gone",
    bounds=POSITIVE,
    reference=_CHE,
)
_stream_share = 1 - hot_share
_room = minimum(lines / copies, 0.999 * (hot_lines + stream_lines))
_hot_left = exp(-hot_share * characteristic / hot_lines)
_stream_left = exp(-_stream_share * characteristic / stream_lines)
_filled = hot_lines * (1 - _hot_left) + stream_lines * (1 - _stream_left)
_slope = hot_share * _hot_left + _stream_share * _stream_left
scope.iterative(
    characteristic,
    # Newton's method on a concave function, from the left: it never overshoots.
    characteristic + (_room - _filled) / _slope,
    start=_room,
    name="second.che",
    meaning="lines asked for within that time fill the cache",
    reference=_CHE,
)
_whole = hot_lines + stream_lines <= lines / copies
hot_hits = scope.declare(
    "hot.hits, h_h [1 as %]: share of requests for popular lines that find them",
    equals=where(_whole, 1, 1 - exp(-hot_share * characteristic / hot_lines)),
    bounds=(0, 1),
    reference=_CHE,
    target=True,
)
stream_hits = scope.declare(
    "stream.hits, h_s [1 as %]: share of requests for other lines that find them",
    equals=where(_whole, 1, 1 - exp(-_stream_share * characteristic / stream_lines)),
    bounds=(0, 1),
    reference=_CHE,
    target=True,
)
hits = scope.declare(
    "second.hits, h_2 [1 as %]: share of requests that the second-level cache answers",
    equals=hot_share * hot_hits + (1 - hot_share) * stream_hits,
    bounds=(0, 1),
    reference=_CHE,
    target=True,
)
# Translation.
pages = scope.declare(
    "translation.entries, n_TLB: pages whose translation is at hand", bounds=POSITIVE, reference=_PAGES,
    boundary="needs-source",
)  # fmt: skip
page = scope.declare(
    "translation.page, s_p [byte as MiB]: bytes of a page; unless given, 2 MiB",
    equals=number("2097152 byte"),
    bounds=POSITIVE,
    reference=_PAGES,
)
translated = scope.declare(
    "translation.reach, C_TLB [byte as GiB]: bytes whose translation is at hand",
    equals=pages * page,
    bounds=POSITIVE,
    reference=_PAGES,
    target=True,
)
scattered_misses = scope.declare(
    "translation.misses, m_TLB [1 as %]: share of scattered loads whose translation is not at hand",
    equals=maximum(1 - translated / (hot_bytes + stream_bytes), 0),
    bounds=(0, 1),
    reference=_PAGES,
    target=True,
)
streamed_misses = scope.declare(
    "translation.streamed_misses, m_TLBs [1 as %]: share of lines of a stream that begin a page",
    equals=line / page,
    bounds=(0, 1),
    reference=_PAGES,
    target=True,
)
levels = scope.declare(
    "translation.levels, n_lv: tables that a walk reads one after the other; unless given, 4",
    equals=4,
    bounds=POSITIVE,
    reference=_PAGES,
)
first_cycles = _cycles("first.cycles, c_1: cycles of a load from the first-level cache")
second_cycles = _cycles("second.cycles, c_2: cycles of a load from the second-level cache")
walk_cycles = scope.declare(
    "translation.cycles, c_TLB: cycles that translation adds to a scattered load, on average: tables are in the second "
    "cache",
    equals=scattered_misses * levels * second_cycles,
    reference=_PAGES,
)
# The mean load.
first_hits = scope.declare(
    "first.hits, h_1 [1 as %]: share of loads that the first-level cache answers; unless given, none",
    equals=0,
    bounds=(0, 1),
    reference=_MEAN,
)
miss_penalty = scope.declare(
    "second.penalty, c_p: cycles that a miss of the second-level cache adds",
    equals=memory_cycles - second_cycles,
    reference=_MEAN,
    target=True,
)
mean_cycles = scope.declare(
    "load.cycles, c_ld: cycles of a load, on average over where it is found",
    equals=first_hits * first_cycles + (1 - first_hits) * (second_cycles + (1 - hits) * miss_penalty) + walk_cycles,
    bounds=POSITIVE,
    reference=_MEAN,
    target=True,
)
mean_latency = scope.declare(
    "load.latency, t_ld [s as ns]: time of a load at the boost clock, on average over where it is found",
    equals=mean_cycles / gpu_rates.clock,
    bounds=POSITIVE,
    reference=_MEAN,
    target=True,
)
chain = scope.declare(
    "load.chain, k_ch: loads of a tile of decode attention that wait for each other: tables, queries, keys, values",
    bounds=POSITIVE,
    reference=by_definition("loads in sequence"),
    boundary="needs-source",
)
scope.equation(
    attention_decode.tile_time,
    chain * mean_latency,
    name="tile_time",
    meaning="loads that wait for each other",
    reference=_MEAN,
)
# Time scales of whole memories.
sweep_time = scope.declare(
    "sweep.time, t_sw [s as ms]: time in which all of the memory is read once",
    equals=gpu_rates.memory_capacity / gpu_rates.memory_bandwidth,
    reference=cited(works.ROOFLINE, "bytes over bandwidth"),
    target=True,
)
balance = scope.declare(
    "balance, I_b [FLOP/byte]: operations by byte of memory traffic at which both limits meet",
    equals=gpu_rates.peak_flops / gpu_rates.memory_bandwidth,
    reference=cited(works.ROOFLINE, "ridge point"),
    target=True,
)
shared_balance = scope.declare(
    "balance.shared, I_s [FLOP/byte]: operations by byte of shared memory at which both limits meet",
    equals=gpu_rates.flops_per_cycle / shared_rate,
    reference=cited(works.ROOFLINE, "ceilings of bandwidth at each level"),
    target=True,
)
