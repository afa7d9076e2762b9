"""Shards of several processes become one trace on one clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay._native import build_info, read_event_shard
from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")

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
