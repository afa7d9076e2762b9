"""Requests of any CSV file or JSON lines, by the names of their columns: time=created,in=prompt,out=answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.load.workloads.readers.csv_rows import number, rows_of
from assay.load.workloads.readers.lengths_csv import of_model, timed_row
from assay.load.workloads.readers.recorded import Format, Rows, json_objects, opened

PARTS: Final = ("time", "in", "out")
MODEL: Final = "model"
"""A further column, which a plan of several models needs."""
_HINT: Final = "write --columns time=created_at,in=prompt_tokens,out=completion_tokens"


def read_columns(text: str) -> dict[str, str]:
    """The columns of the time and both lengths, and that of the model where it is named.

    >>> read_columns("time=ts,in=prompt,out=answer")
    {'time': 'ts', 'in': 'prompt', 'out': 'answer'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, sign, column = (word.strip() for word in part.partition("="))
        if not sign or not column or name not in (*PARTS, MODEL):
            raise InputError(
                f"--columns: expected time=, in= and out= with a column, got {part[:60]!r}", _HINT
            )
        if name in columns:
            raise InputError(f"--columns: expected {name} once, got it twice")
        columns[name] = column
    if missing := [name for name in PARTS if name not in columns]:
        raise InputError(f"--columns: expected {missing[0]}=COLUMN too, got none", _HINT)
    return columns


def mapped_format(path: Path, columns: Mapping[str, str]) -> Format:
    """The format of a file whose columns were named."""
    with opened(path) as file:
        is_json = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    names = [columns[part] for part in PARTS]
    model = [columns[MODEL]] if MODEL in columns else []

    def rows(path: Path) -> Rows:
        if not is_json:
            for row in rows_of(path, [*names, *model]):
                time, prompt, output = (row[name] for name in names)
                yield of_model(timed_row(time, number(prompt), number(output)), _first(row, model))
            return
        for where, fields in json_objects(path):
            if missing := [name for name in (*names, *model) if name not in fields]:
                raise InputError(f'{where}: expected a field "{missing[0]}", got none')
            yield of_model(timed_row(*(fields[name] for name in names)), _first(fields, model))

    return Format("columns", ", ".join(f"{part}={columns[part]}" for part in PARTS), rows)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return row[names[0]] if names else None
