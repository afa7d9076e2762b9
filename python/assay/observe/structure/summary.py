"""What `assay trace summary` says of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.lazy_import import LazyModule
from assay.observe import operations, schema
from assay.observe.structure import collectives
from assay.observe.structure.recovery import Recovery

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")


def summarize(recovered: Recovery) -> dict[str, Any]:
    """Counts and sums of the device's events, steps, operations, and what is not mapped."""
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
    split, notes = collectives.split(device)
    kinds = dict(device["kind"].value_counts().iter_rows())
    return {
        "model": trace.header.model,
        "kernels": kinds.get("kernel", 0),
        "copies": kinds.get("memcpy", 0) + kinds.get("memset", 0),
        "device_ns": total,
        "steps": [describe_step(row) for row in recovered.steps],
        "mapped_share": mapped / total if total else 0.0,
        "operations": by_operation,
        "unmapped": _unmapped(device),
        "graph_replays": recovered.replays,
        "collectives": split,
        "annotations": recovered.annotated,
        "captures": recovered.captured,
        "repairs": dict(trace.header.repairs),
        "degradations": [*trace.header.degradations, *recovered.degradations, *notes],
    }


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
