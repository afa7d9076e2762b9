"""A replay without what its recording cost: each record of a profiler takes the host some time.

An operation's record takes time at its begin and at its end, a call's around it. Events that contain no
other get shorter, and of those that contain others the cost lies between them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from assay.diagnose.itemizing.profiler_cost import RecordCost, record_cost
from assay.diagnose.replay.columns import Columns
from assay.diagnose.replay.edges import THREAD
from assay.lazy_import import np, pl

if TYPE_CHECKING:
    from assay.array_types import Flags, Ints
    from assay.diagnose.replay.scenario import Scenario
    from assay.observe.trace import Trace


def leave_out_recording(scenario: Scenario, trace: Trace) -> None:
    """Take the cost of records off host work; nothing where it was not measured for this profiler."""
    cost = record_cost(trace)
    if cost is None:
        return
    kind = trace.events["kind"].cast(pl.String)
    is_call = kind.is_in(["api", "sync"]).to_numpy()
    columns, edges = Columns.of(trace.events), scenario.edges
    on_thread = ~scenario.is_device
    own = np.where(is_call[edges.rows], cost.call_ns, cost.operation_ns)
    work = edges.work_ns.copy()
    work[on_thread] = np.maximum(work[on_thread] - own[on_thread], 0)
    lag = edges.lag_ns.copy()
    between = edges.kind == THREAD
    lag[between] = np.maximum(
        lag[between] - _around(columns, edges.rows, edges.src[between], edges.dst[between], is_call, cost),
        np.minimum(lag[between], 0),
    )  # fmt: skip
    scenario.edges = dataclasses.replace(edges, lag_ns=lag, work_ns=work)
    scenario.notes.append(
        f"host work is without what its recording cost: {cost.operation_ns:,} ns an operation and "
        f"{cost.call_ns:,} ns a call, {cost.source}"
    )


def _around(
    columns: Columns, leaves: Ints, src: Ints, dst: Ints, is_call: Flags, cost: RecordCost
) -> Ints:
    """Cost of records of events that contain others, where they begin or end between two leaves."""
    holds = columns.thread >= 0
    holds[leaves] = False
    outer = np.flatnonzero(holds)
    half = np.where(is_call[outer], cost.call_ns, cost.operation_ns) // 2
    # One number for thread and time: threads do not overlap.
    origin = int(columns.start.min())
    width = int(columns.end.max()) - origin + 1
    total = np.zeros(len(src), np.int64)
    for times in (columns.start[outer], columns.end[outer]):
        place = columns.thread[outer].astype(np.float64) * width + (times - origin)
        order = np.argsort(place)
        sums = np.concatenate([[0], np.cumsum(half[order])])
        base = columns.thread[src].astype(np.float64) * width
        first = np.searchsorted(place[order], base + (columns.end[src] - origin), "left")
        last = np.searchsorted(place[order], base + (columns.start[dst] - origin), "right")
        total += sums[np.maximum(last, first)] - sums[first]
    return total
