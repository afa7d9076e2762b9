"""Records what the machine is like for a time: `assay telemetry record`."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.answers import Answer, Progress, silent
from assay.observe.telemetry.session import State, telemetry


@dataclass(frozen=True, kw_only=True)
class Recording(Answer):
    """What was recorded, what it cost, what was missing and what each sink has acknowledged."""

    run: str
    rate_hz: float
    fast_only: bool
    samples: int
    missed_ticks: int
    devices: Sequence[Mapping[str, str]]
    sinks: Sequence[Mapping[str, Any]]
    missing: Sequence[Mapping[str, Any]]
    wall_seconds: float
    cpu_seconds: float
    core_share: float
    process_core_share: float
    cpu_seconds_by_field: Mapping[str, float]


def record_telemetry(
    sinks: Sequence[str] | None = None,
    *,
    rate: float = 1.0,
    duration_s: float | None = None,
    stop: threading.Event | None = None,
    endpoints: Sequence[str] | None = None,
    run: str | None = None,
    workload: str | None = None,
    phase: str | None = None,
    progress: Progress = silent,
) -> Recording:
    """Record GPUs, host and engines into sinks for a time, or until `stop` is set."""
    state = telemetry(sinks, rate=rate, run=run, workload=workload, endpoints=endpoints)
    state.phase(phase)
    progress(f"recording {state.run}")
    with state:
        begun_s, begun_cpu_s = time.monotonic(), time.process_time()
        progress(f"recording {state.run} at {rate:g} Hz; ctrl-c ends it")
        end_s = None if duration_s is None else begun_s + duration_s
        _wait(state, stop or threading.Event(), end_s, progress)
        wall_s = time.monotonic() - begun_s
        process_s = time.process_time() - begun_cpu_s
    cost = state.cost()
    return Recording(
        run=state.run,
        rate_hz=state.header.rate_hz,
        fast_only=state.header.fast_only,
        samples=state.samples,
        missed_ticks=sum(state.missed.values()),
        devices=[
            {"source": source, "device": device, "name": sample.reading.name}
            for (source, device), sample in sorted(state.latest.items())
        ],
        sinks=[asdict(sink) for sink in state.sinks],
        missing=[asdict(gap) for gap in state.missing],
        wall_seconds=cost["wall_seconds"],
        cpu_seconds=cost["cpu_seconds"],
        core_share=cost["core_share"],
        process_core_share=process_s / wall_s if wall_s > 0 else 0.0,
        cpu_seconds_by_field=state.costs(),
        notes=state.notes(),
    )


def _wait(state: State, stop: threading.Event, end_s: float | None, progress: Progress) -> None:
    while not stop.is_set():
        left_s = 5.0 if end_s is None else end_s - time.monotonic()
        if left_s <= 0:
            return
        stop.wait(min(left_s, 5.0))
        progress(f"recording {state.run}: {state.samples:,} samples")
