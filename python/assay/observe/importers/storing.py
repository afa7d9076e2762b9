"""Stores trace files of other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe.header import TraceHeader
from assay.observe.importers import detect, kineto, ranks
from assay.observe.store import HEADER, new_path
from assay.observe.trace import Trace


@dataclass(frozen=True, kw_only=True)
class ImportedTrace(Answer):
    """A trace of another tool, stored."""

    files: Sequence[str]
    path: str
    name: str
    bytes: int
    source: str
    clock: str
    events: int
    kinds: Mapping[str, Mapping[str, int]]
    """By kind, `count` of events and their `ns`."""
    repairs: Mapping[str, int]
    """What had to be mended, and how often."""
    degradations: Sequence[str]


def import_trace(
    files: Sequence[str], out: str | Path | None = None, *, progress: Progress = silent
) -> ImportedTrace:
    """Store trace files of another tool as one trace, each with the rank it states.

    `out` is a folder that does not exist; without it, one beside the other stored traces.
    """
    folder = Path(out) if out else new_path(_label(files[0]))
    stored = store_files([Path(file) for file in files], folder, progress=progress)
    header = stored.header
    return ImportedTrace(
        files=files,
        path=str(folder),
        name=folder.name,
        bytes=sum(file.stat().st_size for file in folder.iterdir()),
        source=header.source,
        clock=header.clock,
        events=sum(count for count, _ in stored.sums.values()),
        kinds={kind: {"count": count, "ns": ns} for kind, (count, ns) in stored.sums.items()},
        repairs=header.repairs,
        degradations=header.degradations,
        notes=header.degradations,
    )


def _label(file: str) -> str:
    """A name for the trace, of letters that are safe in a path."""
    stem = Path(file).name.split(".")[0]
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in stem)
    return safe.strip("-") or "trace"


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
