"""A window of an engine of this process that answers its requests one after the other."""

import os
import time
from collections.abc import Callable, Iterable, Mapping

from assay.improve.engines.disturbance import DisturbanceMeter
from assay.improve.engines.process import resident_bytes
from assay.improve.engines.protocol import RESIDENT
from assay.load.window import summarize
from assay.load.workloads.measurement import Measurement, RequestRecord, Setting
from assay.load.workloads.workload import Window, Workload


def measured(
    workload: Workload,
    window: Window,
    answer: Callable[[Workload, Window], Iterable[RequestRecord]],
    meter: DisturbanceMeter,
    settings: Mapping[str, Setting],
) -> Measurement:
    """Answer the requests of warming up, then those of the window, and sum these up."""
    for _ in answer(workload, Window(requests=window.warmup_requests)):
        pass
    meter.begin()
    started_at, cpu_before = time.time(), time.process_time()
    records = list(answer(workload, window))
    cpu_s = time.process_time() - cpu_before
    seconds = max((record.end_s for record in records), default=0.0)
    return summarize(
        workload,
        records,
        seconds,
        started_at=started_at,
        settings=settings,
        disturbances=meter.end(),
        details={
            **meter.shares,
            RESIDENT: resident_bytes(os.getpid()),
            "cpu_cores_used": cpu_s / seconds if seconds else 0.0,
        },
    )
