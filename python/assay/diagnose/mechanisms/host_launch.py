"""Host launch: the device waits for its next kernel to be queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.diagnose.critical_path.walk import HOST, LATENCY, PARTS, SILENT
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import IDLE, MechanismView
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")

NAME = "host launch"


def find(view: MechanismView) -> Finding:
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


MECHANISM = Mechanism(
    NAME,
    "the device idles because the host queues kernels more slowly than the device runs them",
    "launch calls, joined with their kernels by correlation",
    "replay the step as a CUDA graph (vLLM: enforce_eager=False), or launch fewer, larger kernels",
    find,
)
