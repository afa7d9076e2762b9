"""Chrome JSON as `exporters/chrome.py` writes it; that of other tools is read by `kineto.py`."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import json_rows, records, schema
from assay.observe.exporters.chrome import CLOSING, ROW
from assay.observe.importers import frames
from assay.observe.trace import Trace


def recognizes(path: Path, head: bytes) -> bool:
    """Whether the header of an export stands at the start."""
    return bool(re.match(rb'\s*\{.{0,200}"assay_trace":\s*\{', head, re.DOTALL))


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from Chrome JSON that assay wrote."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: expected a gzip file, got: {error}") from None
    first, separator, rest = data.partition(b',"traceEvents":[\n')
    if not separator or b"\n" in first:
        return _read_reformatted(data, str(path))
    top = _json(first + b"}", f"{path}, line 1")
    if not rest.endswith(b"]}\n"):
        raise InputError(f"{path}: expected the end of a trace, got none", "the file was cut short")
    lines = frames.lines(rest.removesuffix(b"]}\n"), str(path))
    header, steps, count = _top(top, str(path))
    rows = lines.to_frame("line").select(
        pl.col("line").str.splitn(ROW, 2).struct.field("field_1").alias("line")
    )["line"]
    rows = rows.drop_nulls()
    _check(len(rows), count, str(path))
    tables = []
    for start in range(0, len(rows), json_rows.CHUNK):
        chunk = rows.slice(start, json_rows.CHUNK)
        tables.append(json_rows.from_lines(chunk, str(path), closing=CLOSING))
        if progress:
            progress(f"{start + len(chunk):,} of {count:,} events read")
    events = pl.concat(tables) if tables else pl.DataFrame(schema=schema.event_columns())
    return Trace(header, frames.checked(events, str(path)), steps)


def _read_reformatted(data: bytes, where: str) -> Trace:
    """A file that another tool wrote out again: the same data in other lines."""
    top = _json(data, where)
    header, steps, count = _top(top, where)
    listed = top.get("traceEvents")
    if not isinstance(listed, list):
        raise InputError(f"{where}: expected a list of traceEvents")
    rows = []
    for event in listed:
        row = event.get("args", {}).get("assay") if isinstance(event, dict) else None
        if isinstance(row, dict):
            args = row.pop("args", None)
            member = "" if args is None else f',"args":{json.dumps(args)}'
            rows.append(json.dumps(row)[:-1] + member + "}")
    _check(len(rows), count, where)
    events = json_rows.from_lines(pl.Series("line", rows, pl.String), where)
    return Trace(header, frames.checked(events, where), steps)


def _top(top: Any, where: str) -> tuple[Any, pl.DataFrame, int]:
    first = top.get("assay_trace") if isinstance(top, dict) else None
    header, (_, events) = records.read_first(first, where)
    assert isinstance(first, dict)
    return header, json_rows.read_steps(first.get("step_rows"), where), events


def _check(count: int, expected: int, where: str) -> None:
    if count != expected:
        raise InputError(
            f"{where}: expected {expected:,} events, got {count:,}",
            "the file was cut short, or events were removed",
        )


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected JSON, got: {str(error)[:200]}") from None
