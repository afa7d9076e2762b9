"""Requests of an own log as CSV: a column of times and two of lengths, by the names that servers log them with.

    timestamp,prompt_tokens,completion_tokens
    2026-11-16T18:15:46Z,374,44

Times are dates or seconds; other columns are refused by a plan, which would ignore what they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from assay.load.workloads.readers.azure import time_of
from assay.load.workloads.readers.csv_rows import number, rows_of
from assay.load.workloads.readers.recorded import Format, Rows, lengths_row, seconds

TIMES: Final = ("arrival_s", "timestamp", "time", "created_at", "start_time")
INPUTS: Final = ("input_tokens", "prompt_tokens", "num_prompt_tokens", "input_length")
OUTPUTS: Final = ("output_tokens", "completion_tokens", "num_generation_tokens", "output_length")
COLUMNS: Final = (*TIMES, *INPUTS, *OUTPUTS)


def has_columns(columns: Iterable[str]) -> bool:
    """Whether there is a time and both lengths among columns."""
    present = set(columns)
    return all(not present.isdisjoint(names) for names in (TIMES, INPUTS, OUTPUTS))


def read(path: Path) -> Rows:
    """The requests of a file."""
    for row in rows_of(path, ()):
        time, prompt, output = (
            next((row[name] for name in names if row.get(name)), None)
            for names in (TIMES, INPUTS, OUTPUTS)
        )
        plain = seconds(number(time))
        arrival = time_of(time) if plain is None else plain
        yield lengths_row(arrival, number(prompt), number(output))


FORMAT: Final = Format(
    "lengths_csv", "CSV with a time (timestamp), prompt_tokens and completion_tokens", read
)
