"""Throttling: kernels run at a lower clock than the prediction's."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView
from assay.observe.telemetry import throttle


def find(view: MechanismView) -> Finding:
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


MECHANISM = Mechanism(
    "throttling",
    "a power cap or a temperature limit lowers the clock, and kernels bound by compute, cache or "
    "issue slow down with it",
    "SM clock and throttle reasons of telemetry",
    "raise the power limit (nvidia-smi -pl), cool the GPU, or lock a clock that it can hold",
    find,
)
