"""All mechanisms, in the order in which a step meets them."""

from __future__ import annotations

from typing import Final

from assay.diagnose.mechanisms import (
    attention_latency,
    collective_wait,
    compute_gemm,
    copies,
    cpu_starvation,
    elementwise,
    expert_imbalance,
    fragmentation,
    graph_gaps,
    grouped_gemm,
    host_launch,
    host_scheduling,
    kv_reads,
    noisy_neighbor,
    overlap,
    preemption,
    prefill_interference,
    profiler_overhead,
    sampling,
    small_gemm,
    small_kernels,
    stream_gaps,
    synchronization,
    throttling,
)
from assay.diagnose.mechanisms.mechanism import Mechanism

MECHANISMS: Final[tuple[Mechanism, ...]] = tuple(
    module.MECHANISM
    for module in (
        host_launch,
        profiler_overhead,
        host_scheduling,
        synchronization,
        graph_gaps,
        stream_gaps,
        small_gemm,
        compute_gemm,
        grouped_gemm,
        kv_reads,
        attention_latency,
        small_kernels,
        elementwise,
        sampling,
        copies,
        overlap,
        collective_wait,
        expert_imbalance,
        prefill_interference,
        throttling,
        noisy_neighbor,
        cpu_starvation,
        preemption,
        fragmentation,
    )
)
"""The causes that Assay knows."""
