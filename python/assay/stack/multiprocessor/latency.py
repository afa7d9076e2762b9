"""Latency: how many bytes must be under way to keep memory busy, and who keeps them there.

Little's law: what is under way is the rate times the time of each. A multiprocessor that is to read its share of the
memory's rate must have asked for many kilobytes that have not arrived yet; resident warps ask for them, and the
registers that hold outstanding misses bound them. Instructions are hidden the same way.
"""

from __future__ import annotations

from assay.model import POSITIVE, cited, minimum, number
from assay.stack import works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.multiprocessor.residency import lanes, partitions, scope, warps

_LITTLE = cited(works.LITTLES_LAW, "L = lambda W")
_HIDING = cited("Volkov 2016, Understanding Latency Hiding on GPUs, UC Berkeley", "ch. 4, occupancy needed")
_MISSES = cited(
    "Kroft 1981, Lockup-free Instruction Fetch/Prefetch Cache Organization, ISCA", "miss status holding registers"
)
_MEASURED = cited(
    "Luo et al. 2024, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking, "
    "arXiv:2402.13499",
    "Table on latencies of the memory hierarchy",
)
_ISSUE = cited(works.CUDA_GUIDE, "sec. 8.2.3, multiprocessor level: latency of instructions")

memory_cycles = scope.declare(
    "memory.cycles, c_m: cycles of a load from memory", bounds=POSITIVE, reference=_MEASURED, boundary="primitive"
)
memory_latency = scope.declare(
    "memory.latency, t_m [s as ns]: time of a load from memory at the boost clock",
    equals=memory_cycles / gpu_rates.clock,
    bounds=POSITIVE,
    reference=_MEASURED,
    target=True,
)
own_bandwidth = scope.declare(
    "memory.own_bandwidth, b_m [byte/s as GB/s]: a multiprocessor's share of the memory's rate",
    equals=gpu_rates.memory_bandwidth / gpu_rates.multiprocessors,
    bounds=POSITIVE,
    reference=_LITTLE,
)
under_way = scope.declare(
    "memory.under_way, n_m [byte as KiB]: bytes that a multiprocessor must have asked for to keep the memory busy",
    equals=own_bandwidth * memory_latency,
    reference=_LITTLE,
    target=True,
)
load_bytes = scope.declare(
    "load.bytes, n_ld [byte]: bytes that a thread's load asks for; unless given, 16",
    equals=number("16 byte"),
    bounds=POSITIVE,
    reference=_HIDING,
)
loads = scope.declare(
    "load.count, k_ld: loads of a thread that are under way at once; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_HIDING,
)
warps_needed = scope.declare(
    "warps.needed, W_m: warps whose loads keep the memory busy",
    equals=under_way / (lanes * load_bytes * loads),
    bounds=POSITIVE,
    reference=_HIDING,
    target=True,
)
hidden = scope.declare(
    "memory.hidden, eta_W [1 as %]: share of the memory's rate that resident warps ask for",
    equals=minimum(warps / warps_needed, 1),
    bounds=(0, 1),
    reference=_HIDING,
    target=True,
)
misses = scope.declare(
    "misses.limit, n_MSHR: lines that a multiprocessor may have under way",
    bounds=POSITIVE,
    reference=_MISSES,
    boundary="needs-source",
)
line = scope.declare(
    "line.size, s_l [byte]: bytes of a cache line; unless given, 128",
    equals=number("128 byte"),
    bounds=POSITIVE,
    reference=_MISSES,
)
miss_bandwidth = scope.declare(
    "misses.bandwidth, b_MSHR [byte/s as GB/s]: rate at which those lines arrive",
    equals=misses * line / memory_latency,
    reference=_MISSES,
    target=True,
)
reach = scope.declare(
    "memory.reached, b_r [byte/s as GB/s]: rate at which a multiprocessor reads memory: by its warps and by its misses",
    equals=minimum(hidden * own_bandwidth, miss_bandwidth),
    reference=_LITTLE,
    target=True,
)
# Instructions.
instruction_cycles = scope.declare(
    "issue.cycles, c_i: cycles until the result of an instruction can be used; unless given, 4",
    equals=4,
    bounds=POSITIVE,
    reference=_ISSUE,
)
independent = scope.declare(
    "issue.independent, k_i: instructions of a warp that do not wait for each other; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_ISSUE,
)
warps_to_issue = scope.declare(
    "issue.warps, W_i: warps that keep every scheduler at one instruction in a cycle",
    equals=partitions * instruction_cycles / independent,
    bounds=POSITIVE,
    reference=_ISSUE,
    target=True,
)
issue_share = scope.declare(
    "issue.share, eta_i [1 as %]: share of cycles in which a scheduler has an instruction to issue",
    equals=minimum(warps / warps_to_issue, 1),
    bounds=(0, 1),
    reference=_ISSUE,
    target=True,
)
issue_rate = scope.declare(
    "issue.rate, r_i [1/s]: instructions that a multiprocessor issues, at the boost clock",
    equals=partitions * issue_share * gpu_rates.clock,
    reference=_ISSUE,
    target=True,
)
