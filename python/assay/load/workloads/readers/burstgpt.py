"""BurstGPT: a CSV of times and lengths of requests to GPT services.

    Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type

Wang et al., BurstGPT (arXiv 2401.17644). Failed requests have no response tokens and are left out,
as `vllm bench serve` does; unlike there, requests of every model are taken, at their times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assay.load.workloads.readers.csv_rows import number, rows_of
from assay.load.workloads.readers.lengths_csv import of_model
from assay.load.workloads.readers.recorded import Format, LeftOut, Rows, lengths_row, seconds

COLUMNS: Final = ("Timestamp", "Request tokens", "Response tokens")


def read(path: Path) -> Rows:
    """The requests of a file."""
    for row in rows_of(path, COLUMNS):
        time, prompt, output = (number(row[column]) for column in COLUMNS)
        if output == 0:
            yield LeftOut("failed rows, of no response tokens")
        else:
            yield of_model(lengths_row(seconds(time), prompt, output), row.get("Model"))


FORMAT: Final = Format(
    "burstgpt", "CSV with Timestamp (s), Request tokens and Response tokens", read
)
