"""A trace as one table, for formats that have one: rows for the header and the steps, then events.

Those rows have a kind of their own, `trace` and `step`; their `args` is a JSON object of what they
hold.
"""

from __future__ import annotations

import json
from typing import Any, Final

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import json_rows, schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

VERSION: Final = 1
"""The version of the layout, under the key `assay_trace` of the first record."""

HEADER_KIND: Final = "trace"
STEP_KIND: Final = "step"


def first_record(trace: Trace) -> dict[str, Any]:
    """What comes first: the header, and the sizes of the tables."""
    return {
        "assay_trace": VERSION,
        "header": json_rows.header_data(trace.header),
        "steps": len(trace.steps),
        "events": len(trace.events),
    }


def read_first(first: Any, where: str) -> tuple[TraceHeader, tuple[int, int]]:
    """The header of a trace, and how many steps and events there are."""
    if not isinstance(first, dict) or first.get("assay_trace") != VERSION:
        version = first.get("assay_trace") if isinstance(first, dict) else first
        raise InputError(
            f"{where}: expected assay_trace {VERSION}, got {str(version)[:80]}",
            "it was written by another version of assay",
        )
    counts = first.get("steps"), first.get("events")
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise InputError(f"{where}: expected the numbers of steps and events")
    return json_rows.read_header(first.get("header"), where), (counts[0] or 0, counts[1] or 0)


def head(trace: Trace) -> pl.DataFrame:
    """The rows for the header and the steps: `kind`, `args`, and where a step is in time."""
    steps = json_rows.steps_data(trace.steps)
    rows = [first_record(trace), *steps]
    return pl.DataFrame(
        {
            "kind": [HEADER_KIND] + [STEP_KIND] * len(steps),
            "name": ["assay", *(step.get("phase") or "step" for step in steps)],
            "start_ns": [None, *(step.get("start_ns") for step in steps)],
            "dur_ns": [None, *(step.get("dur_ns") for step in steps)],
            "rank": [None, *(step.get("rank") for step in steps)],
            "args": [json.dumps(row, allow_nan=False) for row in rows],
        },
        schema={
            name: pl.String if name in ("kind", "name", "args") else kind
            for name, kind in schema.event_columns().items()
            if name in ("kind", "name", "start_ns", "dur_ns", "rank", "args")
        },
    )


def read_head(table: pl.DataFrame, where: str) -> tuple[TraceHeader, pl.DataFrame, pl.DataFrame]:
    """Header, steps, and the rows that are events, of a table whose first row is the header."""
    kinds = table["kind"].cast(pl.String)
    if not len(table) or kinds[0] != HEADER_KIND:
        raise InputError(f"{where}: expected a first record of kind {HEADER_KIND}")
    header, (step_count, event_count) = read_first(_json(table["args"][0], where), where)
    is_step = (kinds == STEP_KIND).fill_null(False)
    steps = [_json(text, f"{where}, a step") for text in table.filter(is_step)["args"]]
    events = table.slice(1).filter(~is_step.slice(1))
    if (len(steps), len(events)) != (step_count, event_count):
        raise InputError(
            f"{where}: expected {step_count:,} steps and {event_count:,} events, got "
            f"{len(steps):,} and {len(events):,}",
            "the file was cut short, or rows were added or removed",
        )
    return header, json_rows.read_steps(steps, where), events


def _json(text: str | None, where: str) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected a JSON object, got: {str(error)[:200]}") from None
