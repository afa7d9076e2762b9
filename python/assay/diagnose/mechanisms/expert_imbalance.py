"""Expert imbalance: some experts, or the ranks that hold them, get more tokens than others."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import EXPERTS
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Waiting in the exchange between ranks; one rank alone does not show it."""
    if not view.with_operation(EXPERTS).any():
        return None
    exchange = view.with_operation({"all_to_all"}) & view.of_terms(
        "kernel_inefficiency", "lost_overlap"
    )
    if not exchange.any() or view.residuals.trace.events["rank"].drop_nulls().n_unique() < 2:
        return NotExamined("traces of all expert-parallel ranks, or the tokens of each expert")
    return MechanismClaim(
        exchange, ("ranks wait for each other in the exchange of tokens",), within="collective wait"
    )


MECHANISM = Mechanism(
    "expert imbalance",
    "the rank with the most tokens finishes last, and the exchange waits for it",
    "all-to-all kernels of several ranks",
    "expert parallel load balancing (EPLB), redundant experts, or a larger batch",
    find,
)
