"""The columns of the event table and of the steps table, as Polars types.

`crates/assay-trace` writes the same columns; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Final

from assay.lazy_import import pl

KINDS: Final = ("kernel", "memcpy", "memset", "sync", "host", "api", "range", "overhead", "instant")
"""What an event is: on a device kernel, memcpy and memset; on the host the others."""

DEVICE_KINDS: Final = ("kernel", "memcpy", "memset")
"""Kinds of event that occupy a device."""

PHASES: Final = ("prefill", "decode", "mixed")
"""Phases of a step."""


def event_columns() -> dict[str, Any]:
    """The columns of the event table, one row an event."""
    return {
        "kind": pl.Categorical(),
        "name": pl.Categorical(),
        # As the source calls it: cpu_op, cuda_runtime, user_annotation.
        "category": pl.Categorical(),
        "start_ns": pl.Int64,
        "dur_ns": pl.Int64,
        "rank": pl.Int32,
        "device": pl.Int32,
        "stream": pl.Int64,
        "pid": pl.Int64,
        "tid": pl.Int64,
        # Joins an API call with what it started on the device.
        "correlation": pl.Int64,
        # Joins a framework's operation with the API calls inside (Kineto: "External id").
        "external": pl.Int64,
        "graph": pl.Int64,
        "node": pl.Int64,
        "step": pl.Int64,
        "phase": pl.Categorical(),
        "layer": pl.Int32,
        "op": pl.Categorical(),
        "bytes": pl.Int64,
        "flops": pl.Float64,
        "grid": pl.Array(pl.Int32, 3),
        "block": pl.Array(pl.Int32, 3),
        # A JSON object of what the source says besides.
        "args": pl.String,
    }


def step_columns() -> dict[str, Any]:
    """The columns of the steps table, one row a step of the engine."""
    return {
        "step": pl.Int64,
        "rank": pl.Int32,
        "phase": pl.Categorical(),
        "start_ns": pl.Int64,
        "dur_ns": pl.Int64,
        "device_ns": pl.Int64,
        # Sequences that decode, tokens of prompts, longest context, requests: null where unknown.
        "batch": pl.Int64,
        "prefill_tokens": pl.Int64,
        "context": pl.Int64,
        "requests": pl.Int64,
        # Where the boundaries come from: engine, annotation, periodicity.
        "source": pl.Categorical(),
    }


def complete(events: pl.DataFrame) -> pl.DataFrame:
    """The event table with every column in order and of its type; absent ones are null."""
    return events.select(
        (pl.col(name).cast(kind) if name in events.columns else pl.lit(None, kind)).alias(name)
        for name, kind in event_columns().items()
    )
