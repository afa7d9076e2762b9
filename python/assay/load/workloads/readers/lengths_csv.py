"""Requests of an own log as CSV: a column of times and two of lengths, by the names that servers log them with.

    timestamp,prompt_tokens,completion_tokens
    2026-11-16T18:15:46Z,374,44

Times are dates, seconds, or milliseconds, microseconds or nanoseconds since 1970, which are told by their size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.load.workloads.readers.azure import time_of
from assay.load.workloads.readers.csv_rows import number, rows_of
from assay.load.workloads.readers.recorded import (
    Format,
    LeftOut,
    Recorded,
    Rows,
    lengths_row,
    seconds,
)

TIMES: Final = ("arrival_s", "timestamp", "time", "created_at", "start_time")
INPUTS: Final = ("input_tokens", "prompt_tokens", "num_prompt_tokens", "input_length")
OUTPUTS: Final = ("output_tokens", "completion_tokens", "num_generation_tokens", "output_length")
MODELS: Final = ("model", "model_name")
"""Columns of the model, which a file need not have."""
COLUMNS: Final = (*TIMES, *INPUTS, *OUTPUTS)
_EPOCHS: Final = {"milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}
_SINCE_1971: Final = 3.2e7
"""Seconds since 1970 of times that are told by their size."""


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
        model = next((row[name] for name in MODELS if row.get(name)), None)
        yield of_model(timed_row(time, number(prompt), number(output)), model)


def of_model(row: Recorded | LeftOut, model: Any) -> Recorded | LeftOut:
    """The request with the model that it asked."""
    if not model or not isinstance(model, str) or isinstance(row, LeftOut):
        return row
    return replace(row, model=model)


def timed_row(time: Any, prompt: Any, output: Any) -> Recorded | LeftOut:
    """A request whose time is a date or a number; one of another unit than seconds says so."""
    plain = number(time) if isinstance(time, str) else time
    arrival = seconds(plain)
    if arrival is None and isinstance(plain, int | float) and not isinstance(plain, bool):
        for unit, size in _EPOCHS.items():
            since = seconds(plain, size)
            if since is not None and since >= _SINCE_1971:
                row = lengths_row(since, prompt, output)
                assumed = (f"times in {unit} since 1970",)
                return replace(row, assumed=assumed) if isinstance(row, Recorded) else row
    if arrival is None and isinstance(time, str):
        arrival = time_of(time)
    return lengths_row(arrival, prompt, output)


FORMAT: Final = Format(
    "lengths_csv", "CSV with a time (timestamp), prompt_tokens and completion_tokens", read
)
