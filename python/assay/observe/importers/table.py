"""CSV as `exporters/table.py` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.observe import json_rows, schema
from assay.observe.exporters.table import ARRAYS, AXES, HEADER_KIND, STEP_KIND, columns
from assay.observe.importers import frames
from assay.observe.importers.lines import read_first
from assay.observe.trace import Trace

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", globals(), "pl")

_ESCAPES: Final = {"n": "\n", "r": "\r", "\\": "\\"}


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
    kinds = table["kind"]
    if not len(table) or kinds[0] != HEADER_KIND:
        raise InputError(f"{path}: expected a first row of kind {HEADER_KIND}")
    where = f"{path}, line 2"
    header, (step_count, event_count) = read_first(_json(table["args"][0], where), where)
    is_step = (kinds == STEP_KIND).fill_null(False)
    steps = [_json(text, f"{path}, a step") for text in table.filter(is_step)["args"]]
    events = table.slice(1).filter(~is_step.slice(1))
    if (len(steps), len(events)) != (step_count, event_count):
        raise InputError(
            f"{path}: expected {step_count:,} steps and {event_count:,} events, got "
            f"{len(steps):,} and {len(events):,}",
            "the file was cut short, or rows were added or removed",
        )
    return Trace(header, _events(events, str(path)), json_rows.read_steps(steps, str(path)))


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
                cells[name] = _text(table[name])
            else:
                cells[name] = table[name]
        return frames.checked(frames.complete(pl.DataFrame(cells)), where)
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


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        character = chr(int(found[1], 16))
        # Half of a surrogate pair is no character: it was not escaped by us.
        return found[0] if 0xD800 <= ord(character) < 0xE000 else character
    return _ESCAPES.get(found[2], found[0])


def _json(text: str | None, where: str) -> object:
    try:
        return json.loads(_plain((text or "").removeprefix("'")))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected a JSON object, got: {str(error)[:200]}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
