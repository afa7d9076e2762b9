"""All mechanisms, in the order in which a step meets them."""

from __future__ import annotations

from typing import Final

from assay.diagnose.mechanisms import batching, cases, gaps, host, kernels, machine
from assay.diagnose.mechanisms.mechanism import Mechanism

MECHANISMS: Final[tuple[Mechanism, ...]] = (
    host.HOST_LAUNCH,
    host.PROFILER_OVERHEAD,
    host.HOST_SCHEDULING,
    host.SYNCHRONIZATION,
    gaps.GRAPH_GAPS,
    gaps.STREAM_GAPS,
    kernels.SMALL_GEMM,
    kernels.COMPUTE_GEMM,
    kernels.GROUPED_GEMM,
    kernels.KV_READS,
    kernels.ATTENTION_LATENCY,
    kernels.SMALL_KERNELS,
    kernels.ELEMENTWISE,
    kernels.SAMPLING_CHAIN,
    gaps.COPIES,
    gaps.OVERLAP,
    gaps.COLLECTIVE_WAIT,
    batching.EXPERT_IMBALANCE,
    batching.PREFILL_INTERFERENCE,
    machine.THROTTLING,
    machine.OTHER_PROGRAMS,
    host.CPU_STARVATION,
    batching.PREEMPTION,
    batching.FRAGMENTATION,
)
"""The causes that Assay knows."""

CASE_MECHANISMS: Final[tuple[Mechanism, ...]] = (
    cases.BETWEEN_OPERATIONS,
    cases.DEPENDENT_STEPS,
    cases.SHORT_OPERATIONS,
    cases.ARITHMETIC,
    cases.MOVING,
    gaps.COPIES,
    machine.THROTTLING,
    machine.OTHER_PROGRAMS,
    host.CPU_STARVATION,
)
"""Those of a case that `assay bench profile` traced: it has no layers, batches or tokens."""
