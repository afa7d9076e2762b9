"""Stores what a capture recorded, without Polars and PyArrow."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay._native import CapturedEvents, EventTable, HostLog, build_info
from assay.engine.runner.recording import SECTIONS
from assay.observe.capture import overhead
from assay.observe.capture.engine_recorder import EngineRecorder
from assay.observe.capture.operation_names import Meaning, OperationNames
from assay.observe.header import TraceHeader
from assay.observe.store import HEADER
from assay.observe.trace import CAPTURED_EVENTS, CAPTURED_STEPS, staged
from assay.runtime.fingerprint import machine

if TYPE_CHECKING:
    from assay._native import WorkTrace
    from assay.runtime import Device

NO_ENGINE: Final = "no engine took a step while it was captured"

COPIES: Final = {"step_inputs": "prepare_inputs", "step_outputs": "collect_outputs"}
"""The operations of the copies between host and device."""

DeviceTime = tuple[int, int, int, int]


def store(
    path: Path,
    engines: Sequence[EngineRecorder],
    works: Mapping[Device, WorkTrace],
    *,
    untraced: Sequence[str],
    failure: BaseException | None,
    others: Sequence[EventTable] = (),
    notes: Sequence[str] = (),
    dropped: int = 0,
) -> tuple[TraceHeader, dict[int, int]]:
    """Store a trace at `path`, all of it or nothing; returns its header, and launches by step."""
    header = _header(engines, works, untraced, failure)
    header.degradations += notes
    header.dropped += dropped
    if others:
        # What other sources recorded does not depend on an engine.
        header.degradations = [line for line in header.degradations if line != NO_ENGINE]
    events = CapturedEvents()
    device_times: dict[int, DeviceTime] = {}
    phases = {step.number: step.phase for engine in engines for step in engine.steps}
    for recorder in engines:
        device = recorder.engine.device
        events.add_host(
            recorder.log,
            [
                (
                    section.name,
                    section.kind,
                    (section.copy, COPIES[section.copy]) if section.copy else None,
                )
                for section in SECTIONS
            ],
            phases,
            offset_ns=_monotonic_offset(recorder.log),
            pid=os.getpid(),
            device=device.ordinal,
        )
    for device, work in works.items():
        users = [engine for engine in engines if engine.engine.device is device]
        log = users[0].log
        device_times |= events.add_work(
            work,
            log,
            _meanings(work, users),
            phases,
            offset_ns=_monotonic_offset(log),
            pid=os.getpid(),
            device=device.ordinal,
            # On a CPU the call runs the work: the section "launch" is the same time.
            host_calls=device.capabilities.executes_asynchronously,
        )
    rows = [row for engine in engines for row in _steps(engine, device_times)]
    with staged(path) as staging:
        EventTable.concatenate([events.take(), *others]).write_shard(staging / CAPTURED_EVENTS)
        (staging / CAPTURED_STEPS).write_text(json.dumps(rows), encoding="utf-8")
        header.write(staging / HEADER)
    return header, {number: times[3] for number, times in device_times.items()}


def _meanings(work: WorkTrace, users: Sequence[EngineRecorder]) -> list[Meaning]:
    """What each name of the device's launches computes, in the model of its engines."""
    # Engines of different models on one device label alike; the first names what both queue.
    names = OperationNames(users[0].engine.model)
    return [names.meaning(*name) for name in work.names()]


def _monotonic_offset(log: HostLog) -> int:
    """What to add to the log's times to get those of the monotonic clock."""
    best: tuple[int, int] | None = None
    for _ in range(5):
        before = time.monotonic_ns()
        then = log.now_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2 - then)
    assert best is not None
    return best[1]


def _steps(
    recorder: EngineRecorder, device_times: Mapping[int, DeviceTime]
) -> list[dict[str, Any]]:
    """A step lasts from its launch, or the end of the step before if that is later, to its end."""
    offset = _monotonic_offset(recorder.log)
    rows = []
    last_end = 0
    for step in recorder.steps:
        device = device_times.get(step.number)
        start = max(step.start_ns + offset, last_end)
        # A step that was cut off ends where the device is known to have come.
        reached = start if device is None else device[1]
        end = max(start, reached if step.end_ns is None else step.end_ns + offset)
        rows.append(
            {
                "step": step.number,
                "phase": step.phase,
                "start_ns": start,
                "dur_ns": end - start,
                "device_ns": None if device is None else device[2],
                "batch": step.batch,
                "prefill_tokens": step.prefill_tokens,
                "context": step.context,
                "requests": step.requests,
                "source": "engine",
            }
        )
        last_end = end
    return rows


def _header(
    engines: Sequence[EngineRecorder],
    works: Mapping[Device, WorkTrace],
    untraced: Sequence[str],
    failure: BaseException | None,
) -> TraceHeader:
    """The header: where the trace comes from, and what it lacks."""
    degradations = [f"{name} has no tracer: host sections only" for name in untraced]
    if failure is not None:
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
        degradations.append(f"ended early by an exception: {reason}")
    if not engines:
        degradations.append(NO_ENGINE)
    dropped = 0
    devices = {}
    for recorder in engines:
        dropped += recorder.log.dropped
        degradations += recorder.engine.degradations
        cut = [step.number for step in recorder.steps if step.end_ns is None]
        if cut:
            degradations.append(f"{len(cut)} steps were cut off, from step {cut[0]} on")
    for device, work in works.items():
        dropped += work.dropped
        queued, _, without = work.counts()
        devices[device.name] = {
            "description": device.description,
            "works": queued,
            "works_without_times": without,
            "clock_error_ns": work.clock_error_ns,
            "clock_resolution_ns": work.resolution_ns,
        }
    if dropped:
        degradations.append(f"{dropped} records were dropped, for want of room")
    first = engines[0].engine.device if engines else None
    # As it is read back: JSON has lists, not tuples.
    hardware = json.loads(json.dumps(machine(first).to_data())) if first is not None else {}
    models = {recorder.engine.files.name: None for recorder in engines}
    return TraceHeader(
        run=f"{os.getpid()}-{time.time_ns()}",
        source="assay",
        engine="assay",
        model=", ".join(models) or None,
        versions={"assay": build_info()["version"]},
        hardware={**hardware, "devices": devices},
        clock="monotonic",
        processes={str(os.getpid()): "assay"},
        dropped=dropped,
        overhead=overhead.measured(hardware.get("fingerprint")),
        degradations=list(dict.fromkeys(degradations)),
    )
