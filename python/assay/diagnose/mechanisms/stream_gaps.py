"""Gaps between kernels of a stream that were queued ahead, outside CUDA graphs."""

from __future__ import annotations

from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Launch gaps before kernels whose launch had returned, in no replay."""
    if view.is_launch_bound:
        return None
    queued = view.of_terms("launch_gaps") & ~view.in_replay & ~view.is_late
    return view.gaps_claim(queued, "before kernels queued ahead")


MECHANISM = Mechanism(
    "stream dispatch gaps",
    "a kernel that was queued ahead begins only after the one before it has drained",
    "gaps before kernels whose launch call had returned",
    "take these kernels into the CUDA graph, or programmatic dependent launch",
    find,
)
