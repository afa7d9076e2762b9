"""JSON lines as `exporters/lines.py` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import json_rows, records, schema
from assay.observe.importers import frames
from assay.observe.trace import Trace


def recognizes(path: Path, head: bytes) -> bool:
    """Whether the first line is the header of an export."""
    return bool(re.match(rb'\s*\{"assay_trace":', head))


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from JSON lines."""
    with path.open("rb") as file:
        first = _object(file.readline(), f"{path}, line 1")
        header, counts = records.read_first(first, f"{path}, line 1")
        rows = [_object(file.readline(), f"{path}, line {i + 2}") for i in range(counts[0])]
        steps = json_rows.read_steps(rows, f"{path}, line 2 and after")
        rest = file.read()
    return Trace(header, _events(rest, counts[1], str(path), progress), steps)


def _events(
    text: bytes, count: int, where: str, progress: Callable[[str], None] | None = None
) -> pl.DataFrame:
    lines = frames.lines(text, where)
    if len(lines) != count:
        raise InputError(
            f"{where}: expected {count:,} events, got {len(lines):,}",
            "the file was cut short, or joined with another",
        )
    tables = []
    for start in range(0, count, json_rows.CHUNK):
        chunk = lines.slice(start, json_rows.CHUNK)
        tables.append(json_rows.from_lines(chunk, where))
        if progress:
            progress(f"{start + len(chunk):,} of {count:,} events read")
    if not tables:
        return pl.DataFrame(schema=schema.event_columns())
    return frames.checked(pl.concat(tables), where)


def _object(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected a JSON object, got: {str(error)[:200]}") from None
