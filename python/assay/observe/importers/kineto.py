"""Traces of PyTorch's profiler (Kineto) and others in the JSON format of Chrome's trace viewer.

`_native` reads the file; this makes the header. Members of an event without a column are in
`args`: those of its own args as they are, those beside them under `@event`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay._native import read_kineto
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.store import HEADER
from assay.observe.trace import EVENTS, STEPS, Trace, staged

if TYPE_CHECKING:
    from assay._native import KinetoFacts

Say = Callable[[str], None] | None
"""Takes a line of progress."""

VERSIONS = ("cuda_driver_version", "cuda_runtime_version", "cupti_version", "PyTorch_version")
"""Members of a file that are versions of software."""


OUTLINE = ("kernel", "memcpy", "memset", "api", "range")
"""Kinds of event that tell steps and operations."""


ROW_GROUP: Final = 32_768
"""Events that the writer gathers before it encodes them: with Polars' own number a quarter more memory."""

READS: Final = "PyTorch profiler (Kineto) and Chrome JSON"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a list of events begins here, maybe behind a long description of the machine."""
    return bool(
        re.match(
            rb'\s*(\{.*"(traceEvents|deviceProperties|baseTimeNanoseconds|distributedInfo)"\s*:'
            rb"|\[\s*[\]{])",
            head,
            re.DOTALL,
        )
    )


def read(path: Path, *, progress: Say = None, details: bool = True) -> Trace:
    """The trace in memory; without `details` only events of `OUTLINE`, and no args."""
    kinds = None if details else OUTLINE
    table, facts = read_kineto(path, details, kinds, _percent(path, progress))
    return Trace(_header(facts), pl.DataFrame(table))


def store(path: Path, folder: Path, *, progress: Say = None) -> dict[str, tuple[int, int]]:
    """Store the trace without holding it in memory; returns events and nanoseconds by kind."""
    from polars.io.plugins import register_io_source

    from assay._native import KinetoBatches

    late: tuple[int | None, int | None] = (None, None)
    with staged(folder) as staging:
        while True:
            batches = KinetoBatches(path, late, _percent(path, progress))
            events = register_io_source(
                lambda *_, batches=batches: map(pl.DataFrame, batches),
                schema=schema.event_columns(),
            )
            events.sink_parquet(staging / EVENTS, statistics=False, row_group_size=ROW_GROUP)
            facts, late = batches.finish()
            if late == (None, None):
                break
            # The file said it behind the events, when the first were stored already: once more.
        pl.DataFrame(schema=schema.step_columns()).write_parquet(staging / STEPS)
        _header(facts).write(staging / HEADER)
    return facts["sums"]


def _percent(path: Path, progress: Say) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(f"reading {path}: {done / max(total, 1):.0%}")


def _header(facts: KinetoFacts) -> TraceHeader:
    described = {name: _value(text) for name, text in facts["described"].items()}
    if facts["descriptions"]:
        described["metadataEvents"] = [_value(text) for text in facts["descriptions"]]
    if facts["flows"]:
        described["flows"] = facts["flows"]
    devices = described.get("deviceProperties")
    degradations = facts["degradations"]
    if facts["base_ns"] is None:
        degradations.append("the file does not say what its clock counts from")
    return TraceHeader(
        source="kineto",
        versions={name: str(described[name]) for name in VERSIONS if name in described},
        hardware={"devices": devices} if devices else {},
        clock="unknown" if facts["base_ns"] is None else "realtime",
        processes=facts["processes"],
        repairs=facts["repairs"],
        degradations=degradations,
        metadata=described,
    )


def _value(text: str) -> Any:
    """A JSON value; its text where Python cannot hold it, as when it nests too deep."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
