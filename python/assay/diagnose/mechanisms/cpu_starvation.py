"""Host CPU starvation: the thread that launches does not get a core."""

from __future__ import annotations

import numpy as np

from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import Finding, NotExamined
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView

PRESSED = 0.1
"""Share of ten seconds in which a runnable thread waited for a core, from which on it counts."""


def find(view: MechanismView) -> Finding:
    """Steps under CPU pressure against steps without."""
    joined = states.samples(view, "host", "host_pressure_cpu")
    if isinstance(joined, NotExamined):
        return joined
    pressed = joined["host_pressure_cpu"].to_numpy() >= PRESSED
    took = joined["dur_ns"].to_numpy().astype(np.float64)
    return states.contrast(view, pressed, took, f"CPU pressure of {PRESSED:.0%} or more")


MECHANISM = Mechanism(
    "host CPU starvation",
    "runnable threads wait for a core, so launches and scheduling come late",
    "CPU pressure of the host in telemetry",
    "give the process more cores (cgroup quota, cpuset), pin its threads, or move other work away",
    find,
)
