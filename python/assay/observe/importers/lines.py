"""JSON lines as `exporters/lines.py` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.observe import json_rows, schema
from assay.observe.exporters.lines import VERSION
from assay.observe.importers import frames
from assay.observe.trace import Trace

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from JSON lines."""
    with path.open("rb") as file:
        first = _object(file.readline(), f"{path}, line 1")
        header, counts = read_first(first, f"{path}, line 1")
        rows = [_object(file.readline(), f"{path}, line {i + 2}") for i in range(counts[0])]
        steps = json_rows.read_steps(rows, f"{path}, line 2 and after")
        rest = file.read()
    return Trace(header, read_events(rest, counts[1], str(path), progress), steps)


def read_first(first: Any, where: str) -> tuple[Any, tuple[int, int]]:
    """The header of a trace, and how many steps and events the file has."""
    if not isinstance(first, dict) or first.get("assay_trace") != VERSION:
        found = first.get("assay_trace") if isinstance(first, dict) else first
        raise InputError(
            f"{where}: expected assay_trace {VERSION}, got {str(found)[:80]}",
            "it was written by another version of assay",
        )
    counts = first.get("steps"), first.get("events")
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise InputError(f"{where}: expected the numbers of steps and events")
    return json_rows.read_header(first.get("header"), where), (counts[0] or 0, counts[1] or 0)


def read_events(
    text: bytes,
    count: int,
    where: str,
    progress: Callable[[str], None] | None = None,
    *,
    closing: str = "}",
) -> pl.DataFrame:
    """The events of so many lines, each of which ends with `closing`."""
    if not text.strip():
        lines = pl.Series("line", [], pl.String)
    else:
        try:
            lines = pl.read_csv(
                text,
                has_header=False,
                separator="\x01",
                quote_char=None,
                schema={"line": pl.String},
                raise_if_empty=False,
            )["line"]
        except pl.exceptions.PolarsError as error:
            message = str(error).partition("\n")[0][:200]
            raise InputError(f"{where}: expected lines of text, got: {message}") from None
    if len(lines) != count:
        raise InputError(
            f"{where}: expected {count:,} events, got {len(lines):,}",
            "the file was cut short, or joined with another",
        )
    tables = []
    for start in range(0, count, json_rows.CHUNK):
        chunk = lines.slice(start, json_rows.CHUNK)
        tables.append(json_rows.from_lines(chunk, where, closing=closing))
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
