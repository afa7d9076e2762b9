"""Calls of a claim's cases as a trace: by our tracer, and by a vendor's profiler where there is one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer, data_of
from assay.bench.claims.claim import OwnWork
from assay.bench.claims.running import Prepared
from assay.bench.harness.case import Case, PreparedCase, Subject
from assay.bench.harness.seeding import seeded
from assay.bench.harness.selection import cases as chosen_cases
from assay.bench.rivals.pytorch import without_pytorch
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import CASE, TraceHeader
from assay.observe.trace import Trace
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device
from assay.runtime.records import Record

PROFILERS: Final = {
    "Nsight Systems": ("nsys", ("profile", "--trace=cuda,nvtx", "--output")),
    "rocprofv3": ("rocprofv3", ("--sys-trace", "--output-directory")),
    "rocprof": ("rocprof", ("--sys-trace", "-o")),
}
"""Vendors' profilers: the program, and the options before the file that it writes."""
_KINDS: Final = {"launch": "kernel", "graph": "kernel", "fill": "memset"}
"""What records of a device are in a trace; all others that take time are copies."""
_UNTIMED: Final = ("allocate", "free")

Event = dict[str, Any]


@dataclass(frozen=True)
class Profile(Answer):
    """What `assay bench profile` gives."""

    trace: Path
    cases: list[dict[str, Any]]
    """Each case with its calls, seconds, and the operations that took most."""
    profilers: dict[str, str]
    """What each vendor's profiler wrote, or why it did not run."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"trace": str(self.trace), **data_of(self, "cases profilers")}


def profile(
    prepared: Prepared,
    out: Path,
    calls: int,
    words: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Profile:
    """Trace some calls of each case; `words` is the command that a vendor's profiler would run."""
    device = prepared.settings.device
    with seeded(prepared.seeds[0]), without_pytorch():
        cases = chosen_cases(prepared.suite.cases(prepared.settings), prepared.settings.cases)
        events: list[Event] = []
        steps: list[Event] = []
        about = []
        work = []
        notes = ["steps are calls of a case, laid one after the other: time between is left out"]
        dropped = 0
        for case in cases:
            say(case.name)
            ready = case.prepare()
            work.append(_work(case, ready))
            recorded, lost = _recorded(case.name, ready.own, device, calls, steps)
            if prepared.claim.work is not None:
                notes.append(ready.note)
                if device.host_memory:
                    own = prepared.claim.work
                    recorded = [_as_operation(call, own, ready) for call in recorded]
            dropped += lost
            events += [event for call in recorded for event in (*call.host, *call.device)]
            steps += [call.step for call in recorded]
            about.append(_summary(case.name, recorded))
    header = TraceHeader(
        run=prepared.claim.name,
        hardware=machine(device).to_data(),
        dropped=dropped,
        degradations=notes,
        # Steps of several cases are not alike.
        metadata={CASE: work[0]} if len(work) == 1 else {},
    )
    Trace(
        header, _table(events, schema.event_columns()), _table(steps, schema.step_columns())
    ).save(out)
    return Profile(out, about, dict(_by_vendors(device, out, words)))


@dataclass(frozen=True, slots=True)
class _Call:
    step: Event
    host: list[Event]
    device: list[Event]


def _work(case: Case, ready: PreparedCase) -> dict[str, Any]:
    """What one call of a case needs, for its floor."""
    counted = {"flops": ready.flops, "bytes": ready.bytes, "serial_steps": ready.serial_steps}
    return {"name": case.name, **counted}


def _recorded(
    name: str, own: Subject, device: Device, calls: int, before: Sequence[Event]
) -> tuple[list[_Call], int]:
    """Calls of our code, each with the records of the device and when each was submitted.

    A call begins where the one before it ended: what the harness does between them is left out.
    """
    own.call(0)
    device.synchronize()
    device.take_records()
    recorded: list[_Call] = []
    dropped = 0
    for number in range(calls):
        begun = time.monotonic_ns()
        own.call(number)
        device.synchronize()
        end = time.monotonic_ns()
        if own.began_ns is not None:
            begun = own.began_ns()
        ahead = time.monotonic_ns() - device.now_ns()
        taken = device.take_records()
        dropped += taken.dropped
        timed = [
            record
            for record in taken.records
            if record.kind not in _UNTIMED
            and record.end_ns is not None
            and record.submitted_ns + ahead >= begun
        ]
        steps = [*before, *(call.step for call in recorded)]
        start = steps[-1]["start_ns"] + steps[-1]["dur_ns"] if steps else begun
        step, shift = len(steps), ahead + start - begun
        end += start - begun
        whole = {
            **{"kind": "range", "name": name, "category": "bench", "step": step},
            **{"start_ns": start, "dur_ns": end - start, "rank": 0, "device": None},
        }
        events = [_event(record, shift, step) for record in timed]
        busy = sum(event["dur_ns"] for event in events)
        recorded.append(
            _Call(
                {
                    **{"step": step, "rank": 0, "start_ns": start, "dur_ns": end - start},
                    **{"device_ns": busy if events else None, "source": "annotation"},
                },
                [whole, *_host(device, whole, timed, shift)],
                events,
            )
        )
    return recorded, dropped


def _as_operation(call: _Call, work: OwnWork, ready: PreparedCase) -> _Call:
    """A call of the user's as one operation: nobody sees what is in it, but for operations of ours."""
    if call.device:
        return call
    (whole, *_) = call.host
    operation = {
        **{**whole, "kind": "kernel", "name": work.ours.text, "op": work.ours.text},
        **{"category": "launch", "device": 0, "stream": 0, "correlation": call.step["step"] + 1},
        **{"bytes": ready.bytes, "flops": ready.flops},
    }
    return _Call({**call.step, "device_ns": operation["dur_ns"]}, [whole], [operation])


def _event(record: Record, shift: int, step: int) -> Event:
    start = record.start_ns if record.start_ns is not None else record.submitted_ns
    return {
        "kind": _KINDS.get(record.kind, "memcpy"),
        "name": record.name or record.kind,
        "category": record.kind,
        "start_ns": start + shift,
        "dur_ns": max(0, (record.end_ns or start) - start),
        "rank": 0,
        "device": 0,
        "stream": record.stream,
        "correlation": record.sequence + 1,
        "step": step,
        "op": record.name or record.kind,
        "bytes": record.bytes,
        "flops": record.flops,
    }


def _host(device: Device, whole: Event, timed: Sequence[Record], shift: int) -> Iterator[Event]:
    """What the host did: on a CPU, whose operations it runs itself, all that is between them.

    On others when it submitted each: one that begins late was submitted late, or queued.
    """
    if device.host_memory:
        yield {**whole, "kind": "host", "name": "program", "category": "engine"}
        return
    for record in timed:
        yield {
            **{"kind": "api", "name": f"submit {record.name or record.kind}", "rank": 0},
            **{"start_ns": record.submitted_ns + shift, "dur_ns": 0},
            "correlation": record.sequence + 1,
        }


def _summary(name: str, recorded: Sequence[_Call]) -> dict[str, Any]:
    wall = sum(call.step["dur_ns"] for call in recorded)
    by_name: dict[str, list[int]] = {}
    for call in recorded:
        for event in call.device:
            by_name.setdefault(event["name"], []).append(event["dur_ns"])
    rows = [
        {"operation": operation, "count": len(times), "ns": sum(times), "share": sum(times) / wall}
        for operation, times in by_name.items()
    ]
    rows.sort(key=lambda row: -float(row["ns"]))
    busy = sum(sum(times) for times in by_name.values())
    return {
        "case": name,
        "calls": len(recorded),
        "ns": wall,
        "in_operations": min(busy / wall, 1.0) if wall else 0.0,
        "operations": rows,
    }


def _table(rows: list[Event], columns: dict[str, Any]) -> Any:
    present = {name: [row.get(name) for row in rows] for name in columns}
    return pl.DataFrame(present, schema=columns, strict=False)


def _by_vendors(device: Device, out: Path, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Run the command under each profiler that is installed and can see the device."""
    for name, (program, options) in PROFILERS.items():
        found = shutil.which(program)
        if found is None:
            yield name, f"not installed: {program} is not on PATH"
        elif not device.capabilities.is_gpu:
            yield name, f"not run: it profiles GPUs, and {device.name} is none"
        else:
            target = out.with_name(f"{out.name}-{program}")
            command = [found, *options, str(target), sys.executable, "-m", "assay", *words]
            done = subprocess.run(command, capture_output=True, text=True)
            said = (done.stderr or done.stdout).strip().splitlines()
            yield (
                name,
                (
                    f"wrote {target}*: assay trace import reads it"
                    if done.returncode == 0
                    else f"failed with {done.returncode}: {said[-1] if said else 'it said nothing'}"
                ),
            )
