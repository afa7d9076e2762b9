"""Steps and operations of a trace, and what is not mapped: `assay trace summary` and `steps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers import Answer, Progress, silent
from assay.lazy_import import pl
from assay.observe import operations, schema
from assay.observe.structure import collectives
from assay.observe.structure.opening import open_recovered
from assay.observe.structure.recovery import Recovery

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TraceSummary(Answer):
    """Counts and sums of the device's events, steps, operations, and what is not mapped."""

    trace: str
    model: str | None
    kernels: int
    copies: int
    device_ns: int
    steps: Rows
    mapped_share: float
    """Of device time: what is an operation of the model."""
    named_share: float
    """Of device time: what the program named itself, and is none of a language model's operations."""
    operations: Rows
    unmapped: Rows
    """Kernels and copies without an operation, by name."""
    graph_replays: int
    collectives: Rows
    annotations: Mapping[str, Any] | None
    captures: Mapping[str, int] | None
    repairs: Mapping[str, int]
    degradations: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TraceSteps(Answer):
    """The steps of a trace, a row each."""

    trace: str
    steps: Rows
    repairs: Mapping[str, int]
    degradations: Sequence[str]


def summarize_trace(
    trace: str | Path,
    model: str | None = None,
    *,
    capture: str | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> TraceSummary:
    """Find steps, phases, layers and operations of a trace, and sum the device's time.

    `out` is a folder to store the trace in, with what was found.
    """
    recovered = open_recovered(
        trace, model, capture=capture, details=out is not None, progress=progress
    )
    summary = summarize(recovered, str(trace))
    if out is not None:
        progress(f"storing {out}")
        recovered.trace.save(Path(out))
    return summary


def list_steps(
    trace: str | Path, model: str | None = None, *, progress: Progress = silent
) -> TraceSteps:
    """List the steps of a trace: phase, batch, start, duration and the device's time in each."""
    recovered = open_recovered(trace, model, details=False, progress=progress)
    degradations = [*recovered.trace.header.degradations, *recovered.degradations]
    return TraceSteps(
        trace=str(trace),
        steps=[describe_step(row) for row in recovered.steps],
        repairs=dict(recovered.trace.header.repairs),
        degradations=degradations,
        notes=degradations,
    )


def summarize(recovered: Recovery, name: str) -> TraceSummary:
    """The summary of a trace whose structure is known."""
    trace = recovered.trace
    used = ("kind", "name", "start_ns", "dur_ns", "rank", "device", "step", "layer", "op")
    device = (
        trace.events.lazy()
        .filter(pl.col("kind").is_in(list(schema.DEVICE_KINDS)))
        .select(used)
        .collect()
    )
    total = int(device["dur_ns"].sum() or 0)
    by_operation = _operations(device, total)
    mapped = sum(row["ns"] for row in by_operation)
    named = int(device.filter(pl.col("op").is_not_null())["dur_ns"].sum() or 0) - mapped
    split, notes = collectives.split(device)
    kinds = dict(device["kind"].value_counts().iter_rows())
    degradations = [*trace.header.degradations, *recovered.degradations, *notes]
    return TraceSummary(
        trace=name,
        model=trace.header.model,
        kernels=kinds.get("kernel", 0),
        copies=kinds.get("memcpy", 0) + kinds.get("memset", 0),
        device_ns=total,
        steps=[describe_step(row) for row in recovered.steps],
        mapped_share=mapped / total if total else 0.0,
        named_share=named / total if total else 0.0,
        operations=by_operation,
        unmapped=_unmapped(device),
        graph_replays=recovered.replays,
        collectives=split,
        annotations=recovered.annotated,
        captures=recovered.captured,
        repairs=dict(trace.header.repairs),
        degradations=degradations,
        notes=degradations,
    )


def describe_step(row: dict[str, Any]) -> dict[str, Any]:
    """A step for people and programs."""
    names = ("step", "rank", "phase", "start_ns", "dur_ns", "device_ns", "batch",
             "prefill_tokens", "context", "requests", "source", "kernels", "layers",
             "complete")  # fmt: skip
    return {name: row[name] for name in names}


def _operations(device: pl.DataFrame, total: int) -> list[dict[str, Any]]:
    """Time by operation; a name that is none of the model's graph does not count as mapped."""
    rows = (
        device.filter(pl.col("op").is_not_null())
        .group_by("op")
        .agg(
            layers=pl.col("layer").drop_nulls().n_unique(),
            count=pl.len(),
            ns=pl.col("dur_ns").sum(),
        )
        .with_columns(pl.col("op").cast(pl.String))
        .sort("ns", "op", descending=[True, False])
    )
    return [
        {
            "name": row["op"],
            "layers": row["layers"],
            "count": row["count"],
            "ns": row["ns"],
            "share": row["ns"] / total if total else 0.0,
        }
        for row in rows.iter_rows(named=True)
        if operations.is_operation(row["op"])
    ]


def _unmapped(device: pl.DataFrame) -> list[dict[str, Any]]:
    known = device["op"].drop_nulls().unique().cast(pl.String).to_list()
    foreign = [name for name in known if not operations.is_operation(name)]
    rows = (
        device.filter(pl.col("op").is_null() | pl.col("op").is_in(foreign))
        .group_by("name")
        .agg(count=pl.len(), ns=pl.col("dur_ns").sum())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("ns", "name", descending=[True, False])
    )
    return list(rows.iter_rows(named=True))
