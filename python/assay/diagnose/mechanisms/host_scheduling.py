"""Host scheduling: the device waits between steps for the host."""

from __future__ import annotations

from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Stalls of the host in a step that launches do not bound as a whole."""
    if view.is_launch_bound:
        return None
    stalls = view.of_terms("host_stalls")
    if not stalls.any():
        return None
    return MechanismClaim(stalls, view.host_sections(stalls))


MECHANISM = Mechanism(
    "host scheduling",
    "the device idles while the host schedules the next step, prepares its inputs or handles the "
    "outputs of the last",
    "gaps before launches that the host was late for, and what its threads did meanwhile",
    "schedule the next step while this one runs (vLLM: async scheduling), or do less per step: "
    "shorter stop lists, no log-probabilities, detokenization elsewhere",
    find,
)
