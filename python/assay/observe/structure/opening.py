"""Open a trace by its path or name, and find the structure of its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.answers import Progress, silent
from assay.errors import AssayError
from assay.observe.importers.detect import open_trace
from assay.observe.store import find
from assay.observe.structure.capture import holds_capture
from assay.observe.structure.layout import read_layout
from assay.observe.structure.recovery import Recovery, is_tagged, recover
from assay.observe.trace import Trace

NO_STEPS: Final = "no step was recognized, so that no operation is known"


def open_recovered(
    trace: str | Path,
    model: str | None = None,
    *,
    capture: str | None = None,
    details: bool = True,
    unreadable: Callable[[AssayError], None] | None = None,
    progress: Progress = silent,
) -> Recovery:
    """Open a trace and find its structure; storing needs its details, too.

    `model` is what `--model` takes; `capture` a trace of the capture of its graphs, where that is
    another file. `unreadable` takes the error of a model that cannot be read, where the structure
    is wanted all the same; a trace whose events carry operations needs no model.
    """
    # A bad name is told before a large trace is read.
    layout = read_layout(model) if model is not None and unreadable is None else None
    path = find(str(trace))
    opened = open_trace(path, progress=progress, details=details)
    if not details and holds_capture(opened.events):
        # Its CPU operations name the kernels of replays.
        opened = open_trace(path, progress=progress)
    if model is not None and unreadable is not None and not is_tagged(opened):
        try:
            layout = read_layout(model)
        except AssayError as error:
            unreadable(error)
    progress(f"finding the structure of {opened.events.height:,} events")
    captured = None if capture is None else open_trace(find(capture), progress=progress)
    return recover(opened, layout, captured)


def open_structured(
    trace: str | Path, model: str | None = None, *, progress: Progress = silent
) -> Trace:
    """A trace to draw: with steps and operations, recovered where its events have none."""
    layout = read_layout(model) if model is not None else None
    opened = open_trace(find(str(trace)), progress=progress)
    if is_tagged(opened):
        return opened
    progress(f"finding the structure of {opened.events.height:,} events")
    recovered = recover(opened, layout)
    # Without a step there is no structure to speak of; what the trace says itself is kept.
    known = recovered.trace if recovered.steps else opened
    gaps = recovered.degradations if recovered.steps else [NO_STEPS]
    header = replace(known.header, degradations=[*known.header.degradations, *gaps])
    return Trace(header, known.events, known.steps)
