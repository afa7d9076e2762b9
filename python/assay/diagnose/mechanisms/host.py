"""What the host does to a step: launches, scheduling, synchronization, a profiler, too few cores."""

from __future__ import annotations

import numpy as np

from assay.array_types import Floats
from assay.diagnose.critical_path.walk import HOST, LATENCY, PARTS, SILENT
from assay.diagnose.mechanisms import states
from assay.diagnose.mechanisms.findings import (
    Finding,
    MechanismClaim,
    MechanismEstimate,
    NotExamined,
)
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import IDLE, PROFILERS, MechanismView
from assay.lazy_import import pl


def _find_host_launch(view: MechanismView) -> Finding:
    """Gaps that end with a kernel that was queued late.

    Where the host is late throughout, it is late between steps, too: what it does there would be
    hidden behind the device if it ran ahead. Then every idle moment is its own.
    """
    late = view.is_late
    if view.is_launch_bound:
        late = view.of_terms(*IDLE) & ~view.in_replay
    if not late.any():
        return None
    count = int((late & view.in_shown_step).sum())
    statements = [
        f"{count:,} gaps end with a kernel whose launch call returned after the device had become "
        "idle"
    ]
    if view.path is not None and view.is_launch_bound:
        statements += _on_path(view)
    return MechanismClaim(late, tuple(statements))


def _on_path(view: MechanismView) -> list[str]:
    """What the host did on the critical path of the step."""
    assert view.path is not None
    inside = view.path.between(*view.window)
    took = dict(inside.group_by(pl.col("part").cast(pl.String)).agg(pl.col("dur_ns").sum()).rows())
    whole = sum(took.values()) or 1
    host = took.get(PARTS[HOST], 0) + took.get(PARTS[SILENT], 0) + took.get(PARTS[LATENCY], 0)
    calls = inside.filter(pl.col("part") == PARTS[HOST])
    kinds = view.residuals.trace.events["kind"].cast(pl.String)
    is_call = kinds.gather(calls["row"].cast(pl.UInt32)).is_in(["api", "sync"])
    in_calls = int(calls.filter(is_call)["dur_ns"].sum())
    in_framework = int(calls.filter(~is_call)["dur_ns"].sum())
    return [
        f"{100 * host / whole:.1f} % of the step's critical path is on the host: "
        f"{in_calls / 1e3:,.0f} us in CUDA calls, {in_framework / 1e3:,.0f} us in operations of "
        f"the framework, {took.get(PARTS[SILENT], 0) / 1e3:,.0f} us in code without a record"
    ]


HOST_LAUNCH = Mechanism(
    "host launch",
    "the device idles because the host queues kernels more slowly than the device runs them",
    "launch calls, joined with their kernels by correlation",
    "replay the step as a CUDA graph (vLLM: enforce_eager=False), or launch fewer, larger kernels",
    _find_host_launch,
)


def _find_profiler_overhead(view: MechanismView) -> Finding:
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
    most = min(max(observed - predicted.lo, sure), whole)
    return MechanismEstimate(
        # What its records cost is the waterfall's term; beyond it the excess may have other causes.
        sure or excess,
        sure or min(max(observed - predicted.hi, sure), whole),
        most,
        (
            counted,
            f"the step takes {(observed - predicted.value) / 1e3:+,.0f} us against the "
            f"prediction without a profiler, {predicted.value / 1e3:,.0f} us",
        ),
        source="prediction",
        rows=view.rows(recorded),
        within=HOST_LAUNCH.name,
        part_of=("profiler_overhead", "launch_gaps", "host_stalls"),
    )


PROFILER_OVERHEAD = Mechanism(
    "profiler overhead",
    "recording an event takes the host time before it can launch the next kernel",
    "records of the profiler about itself, and the prediction of the step without one",
    "measure without the profiler, or record kernels only (no CPU operations, shapes, or stacks)",
    _find_profiler_overhead,
)


def _find_host_scheduling(view: MechanismView) -> Finding:
    """Stalls of the host in a step that launches do not bound as a whole."""
    if view.is_launch_bound:
        return None
    stalls = view.of_terms("host_stalls")
    if not stalls.any():
        return None
    return MechanismClaim(stalls, view.host_sections(stalls))


HOST_SCHEDULING = Mechanism(
    "host scheduling",
    "the device idles while the host schedules the next step, prepares its inputs or handles the "
    "outputs of the last",
    "gaps before launches that the host was late for, and what its threads did meanwhile",
    "schedule the next step while this one runs (vLLM: async scheduling), or do less per step: "
    "shorter stop lists, no log-probabilities, detokenization elsewhere",
    _find_host_scheduling,
)


def _find_synchronization(view: MechanismView) -> Finding:
    """Gaps that a wait explains, in a step that launches do not bound as a whole."""
    waits = view.of_terms("synchronization")
    if view.is_launch_bound or not waits.any():
        return None
    return MechanismClaim(waits, view.host_sections(waits))


SYNCHRONIZATION = Mechanism(
    "synchronization",
    "the host waits for the device before it queues more, or one stream waits for another",
    "gaps during synchronizing calls and between streams",
    "read results a step later (asynchronous scheduling), wait on events instead of the device, and "
    "do not read device values on the host (item(), nonzero())",
    _find_synchronization,
)


PRESSED = 0.1
"""Share of ten seconds in which a runnable thread waited for a core, from which on it counts."""


def _find_cpu_starvation(view: MechanismView) -> Finding:
    """Steps under CPU pressure against steps without."""
    joined = states.samples(view, "host", "host_pressure_cpu")
    if isinstance(joined, NotExamined):
        return joined
    pressure = joined["host_pressure_cpu"].to_numpy()
    pressed = pressure >= PRESSED
    took = joined["dur_ns"].to_numpy().astype(np.float64)
    if pressed.all():
        return _always_pressed(view, pressure, took)
    return states.contrast(view, pressed, took, f"CPU pressure of {PRESSED:.0%} or more")


def _always_pressed(view: MechanismView, pressure: Floats, took: Floats) -> MechanismEstimate:
    """No step without pressure to compare with: no more than the device waited for the host."""
    waited = view.in_step(view.of_terms("launch_gaps", "host_stalls"))
    share = float(np.median(pressure))
    return MechanismEstimate(
        min(share * float(np.median(took)), waited),
        0.0,
        waited,
        (
            f"all {len(took)} steps were under CPU pressure of {PRESSED:.0%} or more ({share:.0%} in "
            "the median), so that there is none to compare with: no more than the device waited for "
            "the host",
        ),
        source="telemetry",
        part_of=("launch_gaps", "host_stalls"),
    )


CPU_STARVATION = Mechanism(
    "host CPU starvation",
    "runnable threads wait for a core, so launches and scheduling come late",
    "CPU pressure of the host in telemetry",
    "give the process more cores (cgroup quota, cpuset), pin its threads, or move other work away",
    _find_cpu_starvation,
)
