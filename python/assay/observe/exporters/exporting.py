"""Writes a trace for another tool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.answers import Answer, Progress, silent
from assay.errors import InputError, unknown_name
from assay.observe.exporters.formats import FORMATS, write
from assay.observe.importers.detect import open_trace
from assay.observe.store import find


@dataclass(frozen=True, kw_only=True)
class ExportedTrace(Answer):
    """A trace in the format of another tool."""

    trace: str
    format: str
    path: str
    bytes: int
    events: int
    steps: int


def export_trace(
    trace: str | Path,
    out: str | Path,
    form: str = next(iter(FORMATS)),
    *,
    force: bool = False,
    progress: Progress = silent,
) -> ExportedTrace:
    """Write a trace for another tool; `force` overwrites a file that is there."""
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    path = Path(out)
    if path.exists() and (not force or not path.is_file()):
        raise InputError(
            f"{out}: exists already", "--force overwrites it" if path.is_file() else None
        )
    opened = open_trace(find(str(trace)), progress=progress)
    write(opened, path, form, progress=progress)
    return ExportedTrace(
        trace=str(trace),
        format=form,
        path=str(out),
        bytes=path.stat().st_size,
        events=len(opened.events),
        steps=len(opened.steps),
    )
