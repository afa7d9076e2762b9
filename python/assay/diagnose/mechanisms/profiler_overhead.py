"""Profiler overhead: what recording itself adds to the host's time."""

from __future__ import annotations

from assay.diagnose.mechanisms import host_launch
from assay.diagnose.mechanisms.findings import (
    Finding,
    MechanismClaim,
    MechanismEstimate,
    NotExamined,
)
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import IDLE, PROFILERS, MechanismView


def find(view: MechanismView) -> Finding:
    """Recorded overhead; where the host bounds the step, also what exceeds the prediction."""
    recorded = view.of_terms("profiler_overhead")
    if not view.is_launch_bound:
        return MechanismClaim(recorded, ("the profiler's own records",)) if recorded.any() else None
    if view.residuals.trace.header.source not in PROFILERS:
        return None
    whole = view.in_step(view.of_terms(*IDLE) & ~view.in_replay)
    records = view.host_records
    counted = (
        f"the profiler wrote {records:,} records of the host in this step, each on the thread that "
        "launches"
    )
    predicted = view.graph.totals.get("step")
    if predicted is None or view.graph.batch.get("cuda_graphs", True):
        return NotExamined(f"a prediction of the step launched kernel by kernel; {counted}")
    observed = view.residuals.waterfall.observed_ns
    sure = view.in_step(recorded)
    excess = min(max(observed - predicted.value, sure), whole)
    return MechanismEstimate(
        excess,
        min(max(observed - predicted.hi, sure), whole),
        min(max(observed - predicted.lo, sure), whole),
        (
            counted,
            f"the step takes {(observed - predicted.value) / 1e3:+,.0f} us against the "
            f"prediction without a profiler, {predicted.value / 1e3:,.0f} us",
        ),
        source="prediction",
        rows=view.rows(recorded),
        within=host_launch.NAME,
        part_of=("profiler_overhead", "launch_gaps", "host_stalls"),
    )


MECHANISM = Mechanism(
    "profiler overhead",
    "recording an event takes the host time before it can launch the next kernel",
    "records of the profiler about itself, and the prediction of the step without one",
    "measure without the profiler, or record kernels only (no CPU operations, shapes, or stacks)",
    find,
)
