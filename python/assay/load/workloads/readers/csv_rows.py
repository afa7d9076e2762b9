"""Rows of a CSV file with a header, of bounded length."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assay.errors import InputError
from assay.load.workloads.readers.recorded import MAX_LINE, opened


def rows_of(path: Path, required: Sequence[str]) -> Iterator[Mapping[str, str | None]]:
    """The rows by column; the required columns are there."""
    with opened(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            delimiter = delimiter_of(text.readline(MAX_LINE))
            text.seek(0)
            rows = csv.DictReader(_lines(text, path), delimiter=delimiter)
            if missing := [column for column in required if column not in (rows.fieldnames or ())]:
                raise InputError(
                    f'{path}: expected a column "{missing[0][:60]}", got none',
                    f"there are: {', '.join(str(name)[:40] for name in (rows.fieldnames or ())[:12])}",
                )
            yield from rows
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}: expected CSV, got: {str(error)[:200]}") from None


def delimiter_of(header: str) -> str:
    """What is between the columns of a header: a comma, or what there is more of.

    >>> delimiter_of("time;in;out"), delimiter_of("time,in,out")
    (';', ',')
    """
    return max(",;\t", key=header.count)


def number(text: str | None) -> float | None:
    """The number in a cell, or None where there is none."""
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    while line := text.readline(MAX_LINE):
        if len(line) >= MAX_LINE:
            raise InputError(
                f"{path}: expected at most {MAX_LINE:,} characters in a line, got more"
            )
        yield line
