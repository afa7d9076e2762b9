"""What the machine does to a step: clocks, and other programs."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView
from assay.observe.telemetry import throttle


def _find_throttling(view: MechanismView) -> Finding:
    """The term of throttled clocks; else steps with a limit hit against those without."""
    slowed = view.of_terms("throttling")
    if slowed.any():
        return MechanismClaim(
            slowed, ("the SM clock was below the prediction's",), source="telemetry"
        )
    joined = states.samples(view, "nvidia", "gpu_throttle")
    if isinstance(joined, NotExamined):
        # The residuals say it first where they lack the clock.
        told = any(note.startswith("throttling") for note in view.residuals.degradations)
        return None if told else joined
    masks = joined["gpu_throttle"].to_list()
    limited = np.array([throttle.is_limited(mask) for mask in masks], bool)
    reasons = sorted({word for mask in masks for word in throttle.words(mask & ~throttle.HARMLESS)})
    took = joined["dur_ns"].to_numpy().astype(np.float64)
    return states.contrast(view, limited, took, f"clocks held down by: {', '.join(reasons)}")


THROTTLING = Mechanism(
    "throttling",
    "a power cap or a temperature limit lowers the clock, and kernels bound by compute, cache or "
    "issue slow down with it",
    "SM clock and throttle reasons of telemetry",
    "raise the power limit (nvidia-smi -pl), cool the GPU, or lock a clock that it can hold",
    _find_throttling,
)


def _find_other_programs(view: MechanismView) -> Finding:
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


OTHER_PROGRAMS = Mechanism(
    "noisy neighbor",
    "another process takes SMs, cache and bandwidth, or time slices of the GPU",
    "kernels of other processes in the trace, or processes on the GPU in telemetry",
    "give the workload a GPU, a MIG instance or an MPS share of its own",
    _find_other_programs,
)
