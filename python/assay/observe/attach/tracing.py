"""Traces a CUDA program, or a slice of a live server, and stores it: `assay trace attach`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from assay.answers import Answer, Progress, data_of, silent
from assay.errors import InputError
from assay.observe import store
from assay.observe.attach import injection, merging, program, server
from assay.observe.trace import Trace


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
        trace = merging.merge(folder.shards(), run=shlex.join(command)[:500])
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
