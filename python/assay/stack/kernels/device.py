"""Device ceilings that the kernel models scale: peak FLOP/s, memory bandwidth, L2, SMs."""

from __future__ import annotations

from assay.model import POSITIVE, Expression, Scope, Symbol, by_definition, equal, fitted, minimum, number, where

scope = Scope("kernels.device", "Device ceilings of one GPU")

_ONE_GPU = by_definition("a kernel runs on one GPU")
_GPU = number("1 GPU")

multiprocessors = scope.declare(
    "multiprocessors, n_SM: SMs over which the CTAs of a kernel are distributed",
    equals=Symbol("gpu.multiprocessors") * _GPU,
    bounds=POSITIVE,
    reference=_ONE_GPU,
)
cache_capacity = scope.declare(
    "cache_capacity, C_L2 [byte as MB]: capacity of the L2 cache",
    equals=Symbol("gpu.cache.capacity") * _GPU,
    bounds=POSITIVE,
    reference=_ONE_GPU,
)
# Kernels were timed at the clock of the benchmarks: a boost clock that a scenario states does not shorten them.
boost_ratio = scope.declare(
    "boost_ratio, r_f: boost clock over that of the board of the benchmarks; unless derived, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_ONE_GPU,
)
scope.approximation(
    boost_ratio,
    Symbol("gpu.clock") / Symbol("gpu.reference.clock"),
    name="ratio_of_boosts",
    valid=Symbol("gpu.clock") > number("0 Hz"),
    meaning="the stated clocks",
    reference=_ONE_GPU,
)
peak_flops = scope.declare(
    "peak_flops, P [FLOP/s as TFLOP/s]: peak rate of 16-bit GEMMs at the boost clock of the board of the benchmarks",
    equals=Symbol("gpu.peak_flops") * _GPU / boost_ratio,
    bounds=POSITIVE,
    reference=_ONE_GPU,
)
memory_bandwidth = scope.declare(
    "memory_bandwidth, B [byte/s as TB/s]: peak rate of the GPU's memory",
    equals=Symbol("gpu.memory.bandwidth") * _GPU,
    bounds=POSITIVE,
    reference=_ONE_GPU,
)
link_bandwidth = scope.declare(
    "link_bandwidth, B_link [byte/s as GB/s]: rate of the links to other GPUs, one direction",
    equals=Symbol("gpu.link.bandwidth") * _GPU,
    reference=_ONE_GPU,
)
_CLOCKS = fitted("docs/design/gpu-power.md", "kernels at 900, 1410 and 1980 MHz on an H200")
_LOWEST_RATIO = 0.71
"""1410 of 1980 MHz, where memory-bound kernels are 3 to 13 % slower; at 900 MHz 80 to 90 %."""
_throttle, _reference = Symbol("gpu.throttle"), Symbol("gpu.throttle_reference")
clock_ratio = scope.declare(
    "clock_ratio, eta: clock under this load over the clock under which constants were fitted",
    bounds=POSITIVE,
    reference=_CLOCKS,
)
scope.approximation(
    clock_ratio,
    boost_ratio * _throttle / _reference,
    name="clock_ratio.fit",
    valid=boost_ratio * _throttle >= _LOWEST_RATIO * _reference,
    reference=_CLOCKS,
    meaning="memory-bound kernels keep their bandwidth at this clock",
)


def clock_of(library: bool) -> Expression:
    """Clock of a kernel over that of its benchmark.

    A kernel of a workload is declared at the clock of its benchmark: the clock under load follows
    from the power of all its kernels together, and slows their sum (`clock_bound`).
    """
    return clock_ratio if library else number("1")


def clock_bound(power_time: Expression, time: Expression, exponent: Expression) -> Expression:
    """Time of a kernel that grows in proportion as the power limit lowers the clock.

    The derivative of an overlapped time by the logarithm of one of its parts.
    """
    share: Expression = minimum(power_time / time, 1)
    return time * share**exponent


tile_peak = peak_flops / multiprocessors
"""Peak rate of one SM on 16-bit operands."""


def rate_multiple(bits: Expression) -> Expression:
    """Tensor-core rate on operands of `bits` bits, over that on 16-bit operands."""
    low_precision = where(bits > 4, Symbol("gpu.rate_8bit"), Symbol("gpu.rate_4bit"))
    return where(bits > 8, 1, low_precision)


def format_exists(bits: Expression) -> Expression:
    """Whether tensor cores compute on operands of `bits` bits: 16, or 8 or 4 where they can."""
    known = equal(bits, 16) | equal(bits, 8) | equal(bits, 4)
    return known & (rate_multiple(bits) > 0)
