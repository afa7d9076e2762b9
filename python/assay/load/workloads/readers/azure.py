"""Traces of Azure's inference services: a CSV of times and lengths.

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:15:46.6805900,374,44

The public traces of Patel et al., Splitwise (ISCA '24).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from assay.load.workloads.readers.csv_rows import number, rows_of
from assay.load.workloads.readers.recorded import Format, Rows, lengths_row

COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d{1,9})?(?:Z|\+00:00)?")


def read(path: Path) -> Rows:
    """The requests of a file."""
    for row in rows_of(path, COLUMNS):
        prompt, output = number(row[COLUMNS[1]]), number(row[COLUMNS[2]])
        yield lengths_row(time_of(row[COLUMNS[0]]), prompt, output)


def time_of(text: str | None) -> float | None:
    """Seconds of a date in UTC, or None where it is none."""
    parts = _TIME.fullmatch(text.strip()) if text else None
    if not parts:
        return None
    try:
        whole = datetime.fromisoformat(parts[1]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return whole + float(parts[2] or 0)


FORMAT: Final = Format("azure", "CSV with TIMESTAMP, ContextTokens and GeneratedTokens", read)
