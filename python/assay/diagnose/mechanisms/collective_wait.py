"""Collective wait: ranks wait in a collective for the slowest, then for the network."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import COLLECTIVE
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Collectives above their floor, or alone where they were to overlap."""
    collective = view.with_operation(COLLECTIVE)
    chosen = collective & view.of_terms("kernel_inefficiency", "lost_overlap")
    if not chosen.any():
        return None
    ranks = view.residuals.trace.events["rank"].drop_nulls().n_unique()
    alone = "" if ranks > 1 else "; a trace of one rank does not say whom it waits for"
    return MechanismClaim(
        chosen, (f"collectives above the time of their bytes on the links{alone}",)
    )


MECHANISM = Mechanism(
    "collective wait",
    "a collective begins with the first rank and moves data when the last one arrives",
    "kernels of collectives, and the floor from their bytes and links",
    "balance the ranks, overlap the collective with compute, or use a one-shot all-reduce for small "
    "messages",
    find,
)
