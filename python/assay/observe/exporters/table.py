r"""CSV: a row an event, and a row of kind `trace` for the header and of kind `step` for each step.

The cells of those two kinds are empty but for `args`, a JSON object, so that sums over a column
stay those of the events. A spreadsheet takes a cell that begins with = + - @ for a formula: an
apostrophe before it keeps it text. Backslash, newline and control characters are escaped: one line
is one row. A lone apostrophe is the empty text; an empty cell is a value that is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from assay.lazy_import import pl
from assay.observe import json_rows, records, schema
from assay.observe.trace import Trace
from assay.paths import replacing

ARRAYS: Final = ("grid", "block")
AXES: Final = ("x", "y", "z")
_FORMULA: Final = "^(?:$|['=+\\-@\uff1d\uff0b\uff0d\uff20])"
"""Text that gets an apostrophe: a formula, also in full-width characters; and the empty text."""
_RARE: Final = "[\x00-\x09\x0b\x0c\x0e-\x1f\x7f\u0085\u2028\u2029]"


def columns() -> list[str]:
    """The columns of the file, in order."""
    names: list[str] = []
    for name in schema.event_columns():
        names += [f"{name}_{axis}" for axis in AXES] if name in ARRAYS else [name]
    return names


def write(trace: Trace, path: Path, *, progress: Callable[[str], None] | None = None) -> None:
    """Write a trace as CSV."""
    head = records.head(trace).select("kind", "args")
    with replacing(path) as file:
        absent = [pl.lit(None).alias(name) for name in columns() if name not in head.columns]
        _escaped(head.with_columns(absent).select(columns())).write_csv(file)
        written = 0
        for chunk in trace.events.iter_slices(json_rows.CHUNK):
            _escaped(_flat(chunk)).write_csv(file, include_header=False)
            written += len(chunk)
            if progress:
                progress(f"{written:,} of {len(trace.events):,} events written")


def _flat(events: pl.DataFrame) -> pl.DataFrame:
    """The table with a column for each axis, and text for categories."""
    return events.select(
        pl.col(name.rpartition("_")[0]).arr.get(AXES.index(name[-1])).alias(name)
        if name.rpartition("_")[0] in ARRAYS
        else pl.col(name)
        for name in columns()
    ).with_columns(pl.col(pl.Categorical).cast(pl.String))


def _escaped(table: pl.DataFrame) -> pl.DataFrame:
    text = pl.col(pl.String)
    table = table.with_columns(
        text.str.replace_all("\\", "\\\\", literal=True)
        .str.replace_all("\n", "\\n", literal=True)
        .str.replace_all("\r", "\\r", literal=True)
    )
    for name, kind in table.schema.items():
        if kind == pl.String and table[name].str.contains(_RARE).any():
            table = table.with_columns(pl.col(name).map_elements(_hexadecimal, pl.String))
    marked = text.str.replace("^", "'")
    return table.with_columns(pl.when(text.str.contains(_FORMULA)).then(marked).otherwise(text))


def _hexadecimal(text: str) -> str:
    return "".join(
        f"\\u{ord(char):04x}" if ord(char) < 0x20 or char in "\x7f\x85\u2028\u2029" else char
        for char in text
    )
