"""Gaps between nodes of a CUDA graph, and between kernels that were queued ahead."""

from __future__ import annotations

from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Launch gaps inside a replay."""
    inside = view.of_terms("launch_gaps") & view.in_replay
    return view.gaps_claim(inside, "between nodes of one replay")


MECHANISM = Mechanism(
    "CUDA-graph node gaps",
    "each node of a graph waits for the last block of the one before it to drain",
    "gaps between kernels of one graph replay",
    "programmatic dependent launch, fused kernels, or a megakernel: fewer nodes",
    find,
)
