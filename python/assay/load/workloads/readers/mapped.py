"""Requests of any CSV file or JSON lines, by the names of their columns: time=created,in=prompt,out=answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.load.workloads.readers.csv_rows import number, rows_of
from assay.load.workloads.readers.lengths_csv import timed_row
from assay.load.workloads.readers.recorded import Format, Rows, json_objects, opened

PARTS: Final = ("time", "in", "out")
_HINT: Final = "write --columns time=created_at,in=prompt_tokens,out=completion_tokens"


def read_columns(text: str) -> dict[str, str]:
    """The columns of the time and both lengths.

    >>> read_columns("time=ts,in=prompt,out=answer")
    {'time': 'ts', 'in': 'prompt', 'out': 'answer'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, sign, column = (word.strip() for word in part.partition("="))
        if not sign or not column or name not in PARTS:
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

    def rows(path: Path) -> Rows:
        if not is_json:
            for row in rows_of(path, names):
                time, prompt, output = (row[name] for name in names)
                yield timed_row(time, number(prompt), number(output))
            return
        for where, row in json_objects(path):
            if missing := [name for name in names if name not in row]:
                raise InputError(f'{where}: expected a field "{missing[0]}", got none')
            yield timed_row(*(row[name] for name in names))

    return Format("columns", ", ".join(f"{part}={columns[part]}" for part in PARTS), rows)
