"""Noisy neighbor: another process uses the same GPU."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Time in which the trace shows another process; else steps with another one active."""
    queued = view.of_terms("queueing")
    if queued.any():
        return MechanismClaim(queued, ("kernels of another process ran while work was queued",))
    joined = states.samples(view, "nvidia", "gpu_processes")
    if isinstance(joined, NotExamined):
        return joined
    others = joined["gpu_processes"].to_numpy() > 1
    took = joined["dur_ns"].to_numpy().astype(np.float64)
    return states.contrast(view, others, took, "another process on the GPU")


MECHANISM = Mechanism(
    "noisy neighbor",
    "another process takes SMs, cache and bandwidth, or time slices of the GPU",
    "kernels of other processes in the trace, or processes on the GPU in telemetry",
    "give the workload a GPU, a MIG instance or an MPS share of its own",
    find,
)
