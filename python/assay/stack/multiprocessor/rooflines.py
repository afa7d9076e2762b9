"""Rooflines by level: what registers, shared memory, caches and memory each allow a kernel.

A kernel has an intensity at every level, the operations by byte that cross it; the least of all ceilings is what it
reaches, unless too few warps hide the latency of its loads.
"""

from __future__ import annotations

from assay.model import POSITIVE, Variable, cited, maximum, minimum, number
from assay.stack import works
from assay.stack.gpu import rates as gpu_rates
from assay.stack.multiprocessor.caches import mean_latency
from assay.stack.multiprocessor.latency import hidden
from assay.stack.multiprocessor.residency import scope, shared_bandwidth

_LEVELS = cited(
    "Yang, Kurth and Williams 2020, Hierarchical Roofline Analysis for GPUs: Accelerating Performance Optimization for "
    "the NERSC-9 Perlmutter System",
    "ceilings by level of the memory hierarchy",
)
_LATENCY = cited("Volkov 2016, Understanding Latency Hiding on GPUs, UC Berkeley", "ch. 4, latency-bound kernels")


def _shape(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_LEVELS, boundary="scenario")


flops = _shape("kernel.flops, F_k [FLOP/GPU]: operations of a kernel")
memory_bytes = _shape("kernel.memory_bytes, S_m [byte/GPU]: bytes that it moves from and to memory")
cache_bytes = _shape("kernel.cache_bytes, S_2 [byte/GPU]: bytes that it moves from and to the second-level cache")
shared_bytes = _shape("kernel.shared_bytes, S_s [byte/GPU]: bytes that it moves from and to shared memory")
register_bytes = _shape("kernel.register_bytes, S_r [byte/GPU]: bytes of registers that its instructions use")
cache_bandwidth = scope.declare(
    "second.bandwidth, B_2 [byte/(s*GPU) as TB/(s*GPU)]: rate of the second-level cache", bounds=POSITIVE,
    reference=_LEVELS, boundary="needs-source",
)  # fmt: skip
register_bandwidth = scope.declare(
    "registers.bandwidth, B_r [byte/(s*GPU) as TB/(s*GPU)]: rate of the registers: three operands of four bytes for "
    "every lane in a cycle",
    equals=gpu_rates.multiprocessors * number("1536 byte") * gpu_rates.clock,
    reference=_LEVELS,
)


def _ceiling(level: str, mark: str, what: str, bandwidth: Variable, moved: Variable) -> Variable:
    intensity = scope.declare(
        f"kernel.{level}_intensity, I_{mark} [FLOP/byte]: operations by byte of {what}",
        equals=flops / moved,
        bounds=POSITIVE,
        reference=_LEVELS,
        target=True,
    )
    return scope.declare(
        f"kernel.{level}_ceiling, P_{mark} [FLOP/(s*GPU) as TFLOP/(s*GPU)]: rate that {what} allows",
        equals=intensity * bandwidth,
        bounds=POSITIVE,
        reference=_LEVELS,
        target=True,
    )


memory_ceiling = _ceiling("memory", "m", "memory", gpu_rates.memory_bandwidth, memory_bytes)
cache_ceiling = _ceiling("cache", "2", "the second-level cache", cache_bandwidth, cache_bytes)
shared_ceiling = _ceiling("shared", "s", "shared memory", shared_bandwidth, shared_bytes)
register_ceiling = _ceiling("register", "r", "registers", register_bandwidth, register_bytes)
attainable = scope.declare(
    "kernel.attainable, P_k [FLOP/(s*GPU) as TFLOP/(s*GPU)]: least of all ceilings and of the peak rate",
    equals=minimum(gpu_rates.peak_flops, memory_ceiling, cache_ceiling, shared_ceiling, register_ceiling),
    bounds=POSITIVE,
    reference=cited(works.ROOFLINE, "the roofline model"),
    target=True,
)
chained_loads = _shape("kernel.chained_loads, k_l: loads of a warp that wait for each other")
latency_time = scope.declare(
    "kernel.latency_time, t_lat [s as us]: time of loads that wait for each other, by what is hidden of it",
    equals=chained_loads * mean_latency / hidden,
    reference=_LATENCY,
    target=True,
)
kernel_time = scope.declare(
    "kernel.time, t_k [s as us]: time of a kernel by its ceilings and by latency, without its launch",
    equals=maximum(flops / attainable, latency_time),
    reference=_LATENCY,
    target=True,
)
