"""CSV as `exporters/table.py` writes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import records, schema
from assay.observe.exporters.table import ARRAYS, AXES, columns
from assay.observe.importers import frames
from assay.observe.trace import Trace

_ESCAPES: Final = {"n": "\n", "r": "\r", "\\": "\\"}


def recognizes(path: Path, head: bytes) -> bool:
    """Whether the first columns are those of the event table."""
    return bool(re.match(rb'"?kind"?,"?name"?,"?category"?,"?start_ns"?,', head))


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from CSV."""
    if progress:
        progress(f"reading {path.name}")
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected CSV, got: {_first_line(error)}") from None
    if table.columns != columns():
        unknown = sorted(set(table.columns) ^ set(columns()))
        raise InputError(
            f'{path}: expected the columns of a trace, got another: "{unknown[0][:80]}"'
        )
    args = _text(table["args"])
    header, steps, events = records.read_head(table.with_columns(args), str(path))
    return Trace(header, _events(events, str(path)), steps)


def _events(table: pl.DataFrame, where: str) -> pl.DataFrame:
    try:
        cells = {}
        for name, kind in schema.event_columns().items():
            if name in ARRAYS:
                axes = [pl.col(f"{name}_{axis}").cast(pl.Int32) for axis in AXES]
                known = pl.all_horizontal(axis.is_not_null() for axis in axes)
                array = pl.concat_list(axes).list.to_array(3)
                cells[name] = table.select(pl.when(known).then(array).alias(name))[name]
            elif kind in (pl.String, pl.Categorical):
                cells[name] = table[name] if name == "args" else _text(table[name])
            else:
                cells[name] = table[name]
        return frames.checked(schema.complete(pl.DataFrame(cells)), where)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{where}: expected events, got: {_first_line(error)}") from None


def _text(cells: pl.Series) -> pl.Series:
    cells = cells.str.strip_prefix("'")
    escaped = cells.str.contains("\\", literal=True)
    if not escaped.any():
        return cells
    plain = cells.filter(escaped).map_elements(_plain, pl.String)
    return cells.scatter(escaped.fill_null(False).arg_true(), plain)


def _plain(text: str) -> str:
    return re.sub(r"\\(?:u([0-9a-f]{4})|(.))", _unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        character = chr(int(escape[1], 16))
        # Half of a surrogate pair is no character: it was not escaped by us.
        return escape[0] if 0xD800 <= ord(character) < 0xE000 else character
    return _ESCAPES.get(escape[2], escape[0])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
