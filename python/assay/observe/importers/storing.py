"""Stores trace files of other tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.observe.header import TraceHeader
from assay.observe.importers import detect, kineto, ranks
from assay.observe.store import HEADER
from assay.observe.trace import Trace

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")


class Stored(NamedTuple):
    """A trace that was stored."""

    header: TraceHeader
    sums: dict[str, tuple[int, int]]
    """Events and nanoseconds by kind."""


def store_files(
    files: Sequence[Path], folder: Path, *, progress: Callable[[str], None] | None = None
) -> Stored:
    """Store files as one trace in a folder that does not exist; all of it or nothing."""
    if folder.exists():
        raise InputError(f"{folder}: exists already", "name another folder, or remove it")
    if len(files) == 1 and files[0].exists() and detect.recognize(files[0]) == "kineto":
        sums = kineto.store(files[0], folder, progress=progress)
        text = (folder / HEADER).read_text(encoding="utf-8")
        return Stored(TraceHeader.from_json(text, str(folder / HEADER)), sums)
    traces = [detect.open_trace(file, progress=progress) for file in files]
    trace = traces[0] if len(traces) == 1 else ranks.merge(traces, [str(file) for file in files])
    trace.save(folder)
    return Stored(trace.header, _sums(trace))


def _sums(trace: Trace) -> dict[str, tuple[int, int]]:
    rows = (
        trace.events.group_by(pl.col("kind").cast(pl.String))
        .agg(count=pl.len(), ns=pl.col("dur_ns").sum())
        .sort("kind")
    )
    return {kind: (count, ns) for kind, count, ns in rows.iter_rows()}
