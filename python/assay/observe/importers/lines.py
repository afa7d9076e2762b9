"""JSON lines as `exporters/lines.py` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.observe import json_rows, records, schema
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
        header, counts = records.read_first(first, f"{path}, line 1")
        rows = [_object(file.readline(), f"{path}, line {i + 2}") for i in range(counts[0])]
        steps = json_rows.read_steps(rows, f"{path}, line 2 and after")
        rest = file.read()
    return Trace(header, read_events(rest, counts[1], str(path), progress), steps)


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
