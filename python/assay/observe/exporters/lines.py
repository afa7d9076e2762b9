"""JSON lines: the header and the sizes of the tables, then a line a step, then a line an event."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from assay.observe import json_rows, records
from assay.observe.trace import Trace
from assay.paths import replacing


def write(trace: Trace, path: Path, *, progress: Callable[[str], None] | None = None) -> None:
    """Write a trace as JSON lines."""
    steps = json_rows.steps_data(trace.steps)
    first = records.first_record(trace)
    with replacing(path) as file:
        for row in (first, *steps):
            file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        written = 0
        for lines in json_rows.to_lines(trace.events):
            # No line holds a newline or a separator: JSON escapes control characters.
            lines.to_frame().write_csv(file, include_header=False, quote_style="never")
            written += len(lines)
            if progress:
                progress(f"{written:,} of {len(trace.events):,} events written")
