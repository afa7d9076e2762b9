"""Traces a CUDA program, or a slice of a live server, and stores it: `assay trace attach`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from assay._native import build_info, read_event_shard
from assay.answers import Answer, Progress, data_of, silent
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema, store
from assay.observe.attach import injection, program, server
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

STATUS: Final = "assay.status"
"""The name of the rows in which a process says how far it is."""

_COUNTED: Final = {
    "lost": "events could not be written",
    "incomplete": "kernels or copies had not ended when recording did",
    "malformed": "records of CUPTI could not be decoded",
    "unknown": "records were of a kind that is not known",
    "unopened_ranges": "NVTX ranges had started before recording did",
}
"""Counts of a status that the header names where they are not zero."""


@dataclass(frozen=True, slots=True)
class Shard:
    """What a process recorded."""

    pid: int
    command: str
    events: pl.DataFrame
    status: dict[str, Any]
    flushed_ns: int
    """When events were last written."""
    period_ns: int
    complete: bool
    """Whether the process ended the shard itself; else it was killed."""
    cut_bytes: int


def read(path: Path) -> Shard:
    """Read a shard, and tell its events from its status rows."""
    table, metadata, complete, cut_bytes = read_event_shard(path)
    if metadata.get("assay.shard") != "1":
        raise InputError(f"{path}: expected the shard of a traced process")
    rows = pl.DataFrame(table)
    rows = rows.select(pl.col(name).cast(kind) for name, kind in schema.event_columns().items())
    is_status = (pl.col("kind") == "instant") & (pl.col("name") == STATUS)
    # CUPTI has no such category of its own: an NVTX marker of that name stays an event.
    is_status &= pl.col("category") == "assay"
    said = rows.filter(is_status)
    status: dict[str, Any] = json.loads(said["args"][-1]) if len(said) else {}
    flushed = said["start_ns"][-1] if len(said) else int(metadata["started_ns"])
    return Shard(
        int(metadata["pid"]),
        metadata["command"],
        rows.filter(~is_status),
        status,
        flushed,
        int(metadata["period_ms"]) * 1_000_000,
        complete,
        cut_bytes,
    )


def merge(paths: Sequence[Path], *, run: str | None = None) -> Trace:
    """One trace of all shards; what is missing is said in its header."""
    shards = [read(path) for path in paths]
    header = TraceHeader(run=run, source="cupti", clock="realtime")
    header.versions["assay"] = build_info()["version"]
    if not shards:
        header.degradations.append(
            "no events: no process of the program loaded the CUDA driver while recording"
        )
        return Trace(header, pl.DataFrame(schema=schema.event_columns()))
    for shard in shards:
        _describe(shard, header)
    events = pl.concat([shard.events for shard in shards]).sort("start_ns", maintain_order=True)
    return Trace(header, events)


def _describe(shard: Shard, header: TraceHeader) -> None:
    who = f"process {shard.pid}"
    header.processes[str(shard.pid)] = shard.command
    header.dropped += shard.status.get("dropped", 0)
    if library := shard.status.get("library"):
        header.versions["cupti"] = library
    for key, sentence in _COUNTED.items():
        if number := shard.status.get(key, 0):
            header.degradations.append(f"{who}: {number:,} {sentence}")
    header.degradations += [f"{who}: {text}" for text in shard.status.get("degradations", [])]
    if dropped := shard.status.get("dropped", 0):
        header.degradations.append(f"{who}: CUPTI dropped {dropped:,} records")
    if not shard.complete:
        # CUPTI holds records back for up to a period while the device has work queued.
        known_ns = shard.flushed_ns - shard.period_ns
        header.degradations.append(
            f"{who}: ended without closing its shard; what ended after {known_ns} ns may be missing"
        )
    if shard.cut_bytes:
        key = "batches cut off at the end of a shard"
        header.repairs[key] = header.repairs.get(key, 0) + 1


@dataclass(frozen=True, kw_only=True)
class AttachedTrace(Answer):
    """A trace of another program, and the exit code of the program."""

    trace: str | None
    """Where it is stored; None where there is none."""
    events: int = 0
    kinds: Mapping[str, int]
    processes: Mapping[str, Any]
    clock: str | None = None
    dropped: int = 0
    degradations: Sequence[str] = ()
    repairs: Mapping[str, int]
    exit_code: int


@dataclass(frozen=True, kw_only=True)
class AttachedServer(AttachedTrace):
    """A trace that a server made of itself; the exit code is 1 without one."""

    server: str
    """vllm, sglang, or unknown."""
    steps_seen: int | None
    files: Sequence[str]


def attach_program(
    command: Sequence[str],
    out: Path | None = None,
    *,
    schedule: program.Schedule | None = None,
    record: Sequence[str] = injection.DEFAULT_ACTIVITIES,
    period_ms: int = 250,
    output: TextIO | None = None,
    progress: Progress = silent,
) -> AttachedTrace:
    """Run a program, its children included, and store a trace of what it did on GPUs.

    `record` are kinds of events, `output` replaces the program's standard output.
    """
    path = _new_path(out)
    if unknown := [kind for kind in record if kind not in injection.ACTIVITIES]:
        known = ", ".join(injection.ACTIVITIES)
        raise InputError(f'--record: expected kinds of {known}, got "{unknown[0]}"')
    with injection.TraceFolder(store.folder(), record, period_ms) as folder:
        run = program.run(
            command, folder, schedule or program.Schedule(), output=output, progress=progress
        )
        progress("merging the shards")
        trace = merge(folder.shards(), run=shlex.join(command)[:500])
        if run.armed_ns is None:
            trace.header.degradations.append("the program ended before recording started")
        trace.header.metadata["attach"] = {
            "command": list(command),
            "record": list(record),
            "period_ms": period_ms,
            "armed_ns": run.armed_ns,
            "disarmed_ns": run.disarmed_ns,
            "exit_code": run.exit_code,
        }
        trace.save(path)
    return AttachedTrace(**_summary(trace, path), exit_code=run.exit_code)


def attach_server(
    url: str,
    out: Path | None = None,
    *,
    steps: int | None = None,
    duration_s: float | None = None,
    delay_steps: int = 0,
    delay_s: float = 0.0,
    trace_folder: Path | None = None,
    timeout_s: float = 120.0,
    progress: Progress = silent,
) -> AttachedServer:
    """Have a running server record some steps, or some time, with its own profiler."""
    if (steps is None) == (duration_s is None):
        raise InputError(
            "--url: expected --steps or --duration-s", "--steps 20 records twenty engine steps"
        )
    path = _new_path(out)
    wanted = server.Slice(delay_steps, steps, delay_s, duration_s)
    recorded = server.record(url, wanted, trace_folder, timeout_s, progress=progress)
    trace = recorded.trace
    if trace is not None:
        progress("storing the trace")
        trace.save(path)
    nothing: dict[str, Any] = {"trace": None, "kinds": {}, "processes": {}, "repairs": {}}
    return AttachedServer(
        **(nothing if trace is None else _summary(trace, path)),
        exit_code=int(trace is None),
        server=recorded.server,
        steps_seen=recorded.steps,
        files=recorded.files,
        notes=recorded.notes,
    )


def _new_path(out: Path | None) -> Path:
    if out is None:
        return store.new_path("attach")
    if out.exists():
        raise InputError(f"{out}: exists already", "name another folder, or remove it")
    return out


def _summary(trace: Trace, path: Path) -> dict[str, Any]:
    kinds = trace.events["kind"].cast(str).value_counts().rows() if len(trace.events) else []
    return {
        "trace": str(path),
        "events": len(trace.events),
        "kinds": dict(sorted(kinds)),
        **data_of(trace.header, "processes clock dropped degradations repairs"),
    }
