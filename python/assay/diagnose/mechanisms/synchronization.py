"""Synchronization: the device idles while the host waits for it, or streams for each other."""

from __future__ import annotations

from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Gaps that a wait explains, in a step that launches do not bound as a whole."""
    waits = view.of_terms("synchronization")
    if view.is_launch_bound or not waits.any():
        return None
    return MechanismClaim(waits, view.host_sections(waits))


MECHANISM = Mechanism(
    "synchronization",
    "the host waits for the device before it queues more, or one stream waits for another",
    "gaps during synchronizing calls and between streams",
    "read results a step later (asynchronous scheduling), wait on events instead of the device, and "
    "do not read device values on the host (item(), nonzero())",
    find,
)
