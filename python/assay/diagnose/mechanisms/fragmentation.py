"""Fragmentation: requests wait though the KV cache has room."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import Finding, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView

ROOM = 0.9
"""Share of the KV cache in use below which a waiting request should have found room."""


def find(view: MechanismView) -> Finding:
    """Steps with requests waiting beside free blocks, against the others."""
    fields = ("engine_kv_cache_usage", "engine_requests_waiting")
    for source in ("engine", "endpoint"):
        joined = states.samples(view, source, *fields)
        if not isinstance(joined, NotExamined):
            break
    if isinstance(joined, NotExamined):
        return joined
    used, waiting = (joined[name].to_numpy() for name in fields)
    took = joined["dur_ns"].to_numpy().astype(np.float64)
    held = (waiting > 0) & (used < ROOM)
    return states.contrast(view, held, took, f"requests waiting with the KV cache below {ROOM:.0%}")


MECHANISM = Mechanism(
    "fragmentation",
    "free KV blocks, or captured batch sizes, do not fit what waits, so batches stay smaller than "
    "memory allows",
    "KV cache usage and waiting requests of the engine",
    "smaller KV blocks, more captured batch sizes, or a higher limit of sequences",
    find,
)
