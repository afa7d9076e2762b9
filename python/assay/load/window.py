"""One window: request records to a `Measurement`, the same way for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from assay.load.load_state import queue_trend, scored
from assay.load.metrics import figures
from assay.load.workloads.measurement import Measurement, RequestRecord, Setting
from assay.load.workloads.ramp import RAMP, ramp_figures
from assay.load.workloads.workload import Workload

LATE_MS: Final = 10.0
"""A client that sends later than planned by more than this disturbs its own window."""
BUSY: Final = 0.8
"""CPU seconds a second of the client above which it may be the bottleneck itself."""


def summarize(
    workload: Workload,
    records: Sequence[RequestRecord],
    seconds: float,
    *,
    started_at: float,
    settings: Mapping[str, Setting],
    client_cpu_share: float | None = None,
    disturbances: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
) -> Measurement:
    """The measurement of a window that lasted `seconds`.

    Figures that an overloaded window must not be scored by are in `details` as `unscored`; how the
    load state was told is there as `queue`.
    """
    trend = queue_trend(records)
    kept, withheld = scored(figures(records, seconds, workload.slo), trend.state)
    if workload.arrival == RAMP:
        kept = {**kept, **ramp_figures(workload, records)}
    reasons = [*disturbances]
    if client_cpu_share is not None and client_cpu_share > BUSY:
        reasons.append(
            f"the load client used {client_cpu_share:.0%} of a core: it may be the bottleneck"
        )
    more: dict[str, Any] = {**(details or {}), "queue": trend.to_data()}
    if withheld:
        more["unscored"] = withheld
    lateness = lateness_ms(records)
    if lateness is not None and workload.concurrency is None:
        more["p99_lateness_ms"] = lateness
        if lateness > LATE_MS:
            reasons.append(f"the load client sent late: p99 {lateness:.3g} ms after its schedule")
    return Measurement(
        workload=workload.name,
        started_at=started_at,
        seconds=seconds,
        records=tuple(records),
        figures=kept,
        load_state=trend.state,
        settings=dict(settings),
        client_cpu_share=client_cpu_share,
        disturbances=tuple(reasons),
        details=more,
    )


def lateness_ms(records: Sequence[RequestRecord]) -> float | None:
    """How late 99 % of the requests of an open loop were sent at most; None in a closed loop."""
    late = [
        record.sent_s - record.scheduled_s for record in records if record.scheduled_s is not None
    ]
    return 1e3 * float(np.percentile(late, 99)) if late else None
